package client_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	paymentsv1 "chargeonce/api/payments/v1"
	"chargeonce/api/payments/v1/client"
)

type answers = []func(*http.Request) (*http.Response, error)

func TestPaySendsTheSameKeyAndBodyUntilThereIsAnAnswer(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*http.Request) (*http.Response, error){
		"the try's time is over":                  hung,
		"the connection drops":                    func(*http.Request) (*http.Response, error) { return nil, errors.New("connection reset") },
		"in progress":                             refused(inProgress),
		"outcome unknown":                         refused(refusal{reason: "PSP_OUTCOME_UNKNOWN", nextAction: "retry_same_key", http: 503, wait: time.Second}),
		"overloaded":                              refused(refusal{reason: "OVERLOADED", nextAction: "retry_same_key", http: 429, wait: time.Second}),
		"a reason without an action that we know": refused(refusal{reason: "FUTURE", nextAction: "do_a_dance", http: 418}),
		"a proxy's page":                          respond(502, "text/html", "<h1>Bad Gateway</h1>"),
		"a proxy's 401":                           respond(401, "text/html", "who are you?"),
		"a proxy's 404, as a problem of its own":  respond(404, "application/problem+json", `{"title":"no such host"}`),
		"a redirect":                              respond(307, "", "", "Location", "http://elsewhere.test/payments"),
		"a success that is cut":                   respond(201, "application/json", paymentJSON[:40]),
		"a success that is a login page":          respond(200, "text/html", "<h1>Welcome to this hotel</h1>"),
		"a success of another media type":         respond(201, "text/html", paymentJSON),
		"a success that is another document":      respond(200, "application/json", `{"status":"ok"}`),
	}
	for name, first := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: answers{first, first, charged}}
				c := newClient(t, client.Config{HTTP: s, TryTimeout: 2 * time.Second})
				intent := client.NewIntent(purchase())
				out, err := c.Pay(t.Context(), intent)
				if err != nil {
					t.Fatal(err)
				}
				want := &client.Outcome{Payment: payment(), HTTPStatus: 201, Location: "/payments/pay_1", Tries: 3}
				if diff := cmp.Diff(want, out, protocmp.Transform()); diff != "" {
					t.Errorf("outcome (-want +got):\n%s", diff)
				}
				key := `"` + string(intent.Key) + `"`
				if diff := cmp.Diff([]string{key, key, key}, s.keys); diff != "" {
					t.Errorf("keys sent (-want +got):\n%s", diff)
				}
				if s.bodies[0] == "" || s.bodies[0] != s.bodies[1] || s.bodies[0] != s.bodies[2] {
					t.Errorf("bodies sent differ: %q", s.bodies)
				}
			})
		})
	}
}

func respond(code int, contentType, body string, headers ...string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) { return answer(code, contentType, body, headers...), nil }
}

func TestPayReturnsAtOnceWhenTheServiceWantsNoRetry(t *testing.T) {
	t.Parallel()
	for word, action := range map[string]paymentsv1.NextAction{
		"new_key": paymentsv1.NextAction_NEW_KEY, "stop": paymentsv1.NextAction_STOP, "fix_request": paymentsv1.NextAction_FIX_REQUEST,
	} {
		t.Run(word, func(t *testing.T) {
			t.Parallel()
			s := &script{answers: answers{refused(refusal{reason: "SOME", nextAction: word, http: 409})}}
			_, err := newClient(t, client.Config{HTTP: s}).Pay(t.Context(), client.NewIntent(purchase()))
			var e *client.Error
			if !errors.As(err, &e) || e.NextAction != action {
				t.Errorf("got %v, want an Error with %v", err, action)
			}
			if len(s.keys) != 1 {
				t.Errorf("sent %d times, want once", len(s.keys))
			}
		})
	}
}

func TestWaitIsNeverShorterThanAskedAndAtMostAQuarterLonger(t *testing.T) {
	t.Parallel()
	date := "Mon, 30 Nov 2026 06:00:00 GMT"
	tests := map[string]struct {
		first func(*http.Request) (*http.Response, error)
		asked time.Duration
	}{
		"retry_after_ms, which is finer than the header": {refused(inProgress), 700 * time.Millisecond},
		"Retry-After of a proxy, in seconds":             {respond(503, "text/html", "", "Retry-After", "3"), 3 * time.Second},
		"Retry-After of a proxy, a date": {
			respond(503, "text/html", "", "Retry-After", "Mon, 30 Nov 2026 06:00:04 GMT", "Date", date), 4 * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: answers{tt.first, tt.first, tt.first, tt.first, charged}}
				if _, err := newClient(t, client.Config{HTTP: s}).Pay(t.Context(), client.NewIntent(purchase())); err != nil {
					t.Fatal(err)
				}
				distinct := map[time.Duration]bool{}
				for n := 1; n < len(s.at); n++ {
					got := s.at[n].Sub(s.at[n-1])
					if got < tt.asked || got > tt.asked+tt.asked/4+1 {
						t.Errorf("wait %d is %v, want %v to a quarter more", n, got, tt.asked)
					}
					distinct[got] = true
				}
				if len(distinct) < 2 {
					t.Error("every wait is the same: no jitter")
				}
			})
		})
	}
}

func TestWaitWithoutAWordGrowsAndIsBoundedAndJittered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: answers{respond(502, "text/html", "")}}
		c := newClient(t, client.Config{HTTP: s, MaxTries: 10})
		if _, err := c.Pay(t.Context(), client.NewIntent(purchase())); !errors.Is(err, client.ErrNoTriesLeft) {
			t.Fatalf("got %v, want ErrNoTriesLeft", err)
		}
		ceiling, distinct := 200*time.Millisecond, map[time.Duration]bool{}
		for n := 1; n < len(s.at); n++ {
			got := s.at[n].Sub(s.at[n-1])
			if got > ceiling {
				t.Errorf("wait %d is %v, want at most %v", n, got, ceiling)
			}
			distinct[got] = true
			ceiling = min(2*ceiling, 5*time.Second)
		}
		if len(distinct) < 5 {
			t.Errorf("%d distinct waits of %d: no jitter", len(distinct), len(s.at)-1)
		}
	})
}

func TestPayGivesUpWithAnUnknownOutcomeThatCanBeResumed(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		answer     func(*http.Request) (*http.Response, error)
		cfg        client.Config
		deadline   time.Duration
		why        error
		tries      int
		took       time.Duration
		retryAfter time.Duration
	}{
		"the deadline ends during a try": {answer: hung, cfg: client.Config{TryTimeout: 10 * time.Second},
			deadline: time.Second, why: context.DeadlineExceeded, tries: 1, took: time.Second},
		"the wait would pass the deadline": {answer: refused(refusal{reason: "UNAVAILABLE", nextAction: "retry_same_key", http: 503, wait: 5 * time.Second}),
			deadline: time.Second, why: client.ErrWaitTooLong, tries: 1, retryAfter: 5 * time.Second},
		"the wait is longer than any that is worth it": {answer: respond(503, "text/html", "", "Retry-After", "86400"),
			deadline: 48 * time.Hour, why: client.ErrWaitTooLong, tries: 1, retryAfter: 24 * time.Hour},
		"the tries are spent": {answer: refused(refusal{reason: "INTERNAL", nextAction: "retry_same_key", http: 500}), cfg: client.Config{MaxTries: 1},
			deadline: time.Minute, why: client.ErrNoTriesLeft, tries: 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: answers{tt.answer}}
				tt.cfg.HTTP = s
				ctx, cancel := context.WithTimeout(t.Context(), tt.deadline)
				defer cancel()
				intent, began := client.NewIntent(purchase()), time.Now()
				_, err := newClient(t, tt.cfg).Pay(ctx, intent)
				var unknown *client.OutcomeUnknownError
				if !errors.As(err, &unknown) || !errors.Is(err, tt.why) {
					t.Fatalf("got %v, want an OutcomeUnknownError because of %v", err, tt.why)
				}
				want := &client.OutcomeUnknownError{Intent: intent, Tries: tt.tries, RetryAfter: tt.retryAfter}
				if diff := cmp.Diff(want, unknown, protocmp.Transform(), cmp.FilterPath(func(p cmp.Path) bool {
					return p.Last().String() == ".err"
				}, cmp.Ignore())); diff != "" {
					t.Errorf("error (-want +got):\n%s", diff)
				}
				if took := time.Since(began); took != tt.took {
					t.Errorf("took %v, want %v", took, tt.took)
				}

				s.answers = answers{charged}
				out, err := newClient(t, client.Config{HTTP: s}).Pay(t.Context(), unknown.Intent)
				if err != nil || out.Payment.GetId() != "pay_1" {
					t.Errorf("the resumed intent: %v, %v", out, err)
				}
				for _, key := range s.keys {
					if key != `"`+string(intent.Key)+`"` {
						t.Errorf("sent the key %s, want %s only", key, intent.Key)
					}
				}
			})
		})
	}
}

func TestPayEndsItsWaitWhenTheCallerLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := &script{answers: answers{refused(inProgress)}}
		c := newClient(t, client.Config{HTTP: s, OnAttempt: func(context.Context, client.Attempt) {
			time.AfterFunc(100*time.Millisecond, cancel)
		}})
		began := time.Now()
		_, err := c.Pay(ctx, client.NewIntent(purchase()))
		var unknown *client.OutcomeUnknownError
		if !errors.As(err, &unknown) || !errors.Is(err, context.Canceled) || time.Since(began) != 100*time.Millisecond {
			t.Errorf("got %v after %v, want an unknown outcome at once", err, time.Since(began))
		}
	})
}

func TestPaySendsNothingWhenItsTimeIsOverAlready(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := &script{answers: answers{charged}}
	_, err := newClient(t, client.Config{HTTP: s}).Pay(ctx, client.NewIntent(purchase()))
	if !errors.Is(err, context.Canceled) || len(s.keys) != 0 {
		t.Errorf("got %v after %d requests, want context.Canceled after none", err, len(s.keys))
	}
}

func TestOnAttemptTellsEveryTry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var got []client.Attempt
		s := &script{answers: answers{hung, refused(inProgress), charged}}
		c := newClient(t, client.Config{HTTP: s, TryTimeout: time.Second, OnAttempt: func(_ context.Context, a client.Attempt) {
			if !a.Last && a.Wait <= 0 {
				t.Errorf("try %d is not the last and has no wait", a.Number)
			}
			a.Wait = 0
			got = append(got, a)
		}})
		intent := client.NewIntent(purchase())
		if _, err := c.Pay(t.Context(), intent); err != nil {
			t.Fatal(err)
		}
		progress := inProgress.want(paymentsv1.NextAction_RETRY_SAME_KEY)
		progress.HTTPStatus = 409
		want := []client.Attempt{
			{Number: 1, Key: intent.Key, Took: time.Second, Err: &client.Error{NextAction: paymentsv1.NextAction_RETRY_SAME_KEY}},
			{Number: 2, Key: intent.Key, Err: progress},
			{Number: 3, Key: intent.Key, Last: true},
		}
		if diff := cmp.Diff(want, got, withoutCause); diff != "" {
			t.Errorf("attempts (-want +got):\n%s", diff)
		}
		if !got[0].Err.TimedOut() {
			t.Errorf("the first try is not told as timed out: %v", got[0].Err)
		}
	})
}

func TestTryTellsTheServiceOfItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told string
		c := newClient(t, client.Config{TryTimeout: 2 * time.Second, HTTP: roundTripper(func(r *http.Request) (*http.Response, error) {
			told = r.Header.Get("Grpc-Timeout")
			return charged(r)
		})})
		if _, err := c.Pay(t.Context(), client.NewIntent(purchase())); err != nil {
			t.Fatal(err)
		}
		if told != "1800m" {
			t.Errorf("Grpc-Timeout is %q, want 1800m: the try's time less the answer's way", told)
		}
	})
}
