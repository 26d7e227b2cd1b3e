package psp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

var unavailable = respond(503, "")

func TestRetriesWaitWithFullJitterUnderADoublingCeilingThatIsCapped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		psp := newFakePSP(unavailable)
		c := testClient(t, Config{MaxAttempts: 8, BreakerOff: true}, psp, fullJitter)
		r := c.Charge(within(t, 30*time.Second), testRequest)
		want := []string{"0s POST", "100ms POST", "300ms POST", "700ms POST", "1.5s POST", "3.1s POST", "5.1s POST", "7.1s POST"}
		if diff := cmp.Diff(want, psp.requests()); diff != "" {
			t.Errorf("want (-), got (+):\n%s", diff)
		}
		if r.Kind != Unknown || r.Attempts != 8 {
			t.Errorf("got %+v", r)
		}
	})
}

func TestFourAttemptsInAllAndTheLastErrorIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		psp := newFakePSP(respond(429, ""), respond(502, ""), drop, respond(504, "", "Retry-After", "7"))
		c := testClient(t, Config{}, psp, noJitter)
		r := c.Charge(within(t, 30*time.Second), testRequest)
		if r.Kind != Unknown || r.Attempts != 4 || r.RetryAfter != 7*time.Second {
			t.Errorf("got %+v", r)
		}
		const want = "psp: charge 1: answered 429; charge 2: answered 502; " +
			"charge 3: unexpected EOF; charge 4: answered 504; charge 4: gave up: no attempt left"
		if diff := cmp.Diff(want, r.Err.Error()); diff != "" {
			t.Errorf("want (-), got (+):\n%s", diff)
		}
	})
}

func TestOnlyWhatMayPassIsTriedAgain(t *testing.T) {
	t.Parallel()
	retried := map[string]step{
		"408": respond(408, ""), "429": respond(429, ""), "502": respond(502, ""), "503": respond(503, ""), "504": respond(504, ""),
		"dropped": drop, "refused": refuse, "hung": hang,
	}
	atOnce := map[string]step{
		"500": respond(500, ""), "501": respond(501, ""), "400": respond(400, ""), "401": respond(401, ""), "403": respond(403, ""),
		"404": respond(404, ""), "413": respond(413, ""), "402 of a proxy": respond(402, ""), "200 that does not parse": respond(200, "{"),
		"409 of a proxy": respond(409, ""), "other amount": respond(200, chargeJSON(testKey, "succeeded", "amount", "1")),
	}
	try := func(name string, first step, attempts int) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				psp := newFakePSP(first, charged)
				c := testClient(t, Config{}, psp, noJitter)
				r := c.Charge(within(t, 30*time.Second), testRequest)
				if n := len(psp.requests()); n != attempts || (r.Kind == Succeeded) != (attempts == 2) {
					t.Errorf("%d requests, got %+v", n, r)
				}
			})
		})
	}
	for name, first := range retried {
		try(name, first, 2)
	}
	for name, first := range atOnce {
		try(name, first, 1)
	}
}

func TestTheWaitIsAtLeastRetryAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		date := time.Now().Add(5 * time.Second).UTC().Format(http.TimeFormat)
		psp := newFakePSP(respond(503, "", "Retry-After", "3"), respond(429, "", "Retry-After", date), charged)
		c := testClient(t, Config{}, psp, fullJitter)
		if r := c.Charge(within(t, 30*time.Second), testRequest); r.Kind != Succeeded {
			t.Errorf("got %+v", r)
		}
		// 3 s and up to 100 ms; then what is left until the date, 1.9 s, and up to 200 ms.
		if diff := cmp.Diff([]string{"0s POST", "3.1s POST", "5.2s POST"}, psp.requests()); diff != "" {
			t.Errorf("want (-), got (+):\n%s", diff)
		}
	})
}

func TestAWaitThatWouldCrossTheDeadlineIsNotBegun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		psp := newFakePSP(respond(503, "", "Retry-After", "3"))
		c := testClient(t, Config{}, psp, noJitter)
		start := time.Now()
		r := c.Charge(within(t, 3*time.Second+19*time.Millisecond), testRequest)
		if took := time.Since(start); took != 0 {
			t.Errorf("took %v", took)
		}
		if r.Kind != Unknown || r.Attempts != 1 || r.RetryAfter != 3*time.Second || errors.Is(r.Err, context.DeadlineExceeded) ||
			!strings.Contains(r.Err.Error(), "answered 503") {
			t.Errorf("got %+v", r)
		}
		if left := c.budget.left(); left != 100 {
			t.Errorf("%d tenths left, want 100: no retry, no token", left)
		}
	})
}

func TestAnAttemptTimesOutAndTheNextOneSucceeds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		psp := newFakePSP(hang, charged)
		c := testClient(t, Config{}, psp, noJitter)
		r := c.Charge(within(t, 30*time.Second), testRequest)
		if diff := cmp.Diff([]string{"0s POST", "2s POST"}, psp.requests()); diff != "" || r.Kind != Succeeded || r.Attempts != 2 {
			t.Errorf("got %+v; requests want (-), got (+):\n%s", r, diff)
		}
	})
}

func TestTheCallEndsByTheCallersDeadline(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		deadline time.Duration
		steps    []step
		ends     time.Duration
		callers  bool // the caller's deadline is in the error's chain
	}{
		"shorter than an attempt":          {300 * time.Millisecond, []step{hang}, 300 * time.Millisecond, true},
		"as long as an attempt":            {2 * time.Second, []step{hang}, 2 * time.Second, true},
		"in the second attempt":            {3 * time.Second, []step{hang}, 3 * time.Second, true},
		"too near for a second attempt":    {2*time.Second + 10*time.Millisecond, []step{hang}, 2 * time.Second, false},
		"in a body that does not come":     {300 * time.Millisecond, []step{after(0, slowBody)}, 300 * time.Millisecond, true},
		"in the first of many time-outs":   {30 * time.Second, []step{hang}, 8 * time.Second, false},
		"in dials that time out":           {30 * time.Second, []step{dialTimesOut}, 0, false},
		"in a connection that hangs":       {300 * time.Millisecond, []step{hangUnconnected}, 300 * time.Millisecond, true},
		"while another request is working": {time.Second, []step{respond(409, errorJSON("key_in_progress", "", testKey)), hang}, time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := testClient(t, Config{BreakerOff: true}, newFakePSP(tc.steps...), noJitter)
				start := time.Now()
				r := c.Charge(within(t, tc.deadline), testRequest)
				if took := time.Since(start); took != tc.ends {
					t.Errorf("took %v, want %v", took, tc.ends)
				}
				if r.Kind.Final() || errors.Is(r.Err, context.DeadlineExceeded) != tc.callers {
					t.Errorf("got %+v", r)
				}
			})
		})
	}
}

// slowBody answers 201 and never sends the body.
func slowBody(req *http.Request) (*http.Response, error) {
	r, w := io.Pipe()
	context.AfterFunc(req.Context(), func() { w.CloseWithError(context.Cause(req.Context())) })
	return &http.Response{StatusCode: 201, Header: http.Header{}, Body: r, Request: req}, nil
}

// dialTimesOut fails as net/http does when the dialer's own time-out, shorter than the attempt's, is over.
func dialTimesOut(*http.Request) (*http.Response, error) {
	return nil, fmt.Errorf("dial tcp: %w", context.DeadlineExceeded)
}

func hangUnconnected(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, context.Cause(req.Context())
}

func TestACallWithoutADeadlineGetsOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := testClient(t, Config{MaxCall: 5 * time.Second, BreakerOff: true}, newFakePSP(hang), noJitter)
		start := time.Now()
		if r := c.Charge(context.Background(), testRequest); r.Kind != Unknown || time.Since(start) != 5*time.Second {
			t.Errorf("took %v, got %+v", time.Since(start), r)
		}
	})
}

func TestWithTooLittleTimeNothingIsSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		psp := newFakePSP(charged)
		c := testClient(t, Config{}, psp, noJitter)
		r := c.Charge(within(t, 19*time.Millisecond), testRequest)
		if r.Kind != NotSent || r.NotSent != DeadlineTooLow || !errors.Is(r.Err, context.DeadlineExceeded) || len(psp.requests()) != 0 {
			t.Errorf("got %+v", r)
		}
		if r := c.Charge(within(t, 20*time.Millisecond), testRequest); r.Kind != Succeeded {
			t.Errorf("with just enough: got %+v", r)
		}
	})
}

func TestACallerWhoLeavesEndsTheCallAndLeavesTheBreakerAlone(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		leaves time.Duration
		step   step
		want   Kind
		reason NotSentReason
	}{
		"before":                {0, charged, NotSent, CallerLeft},
		"during an attempt":     {500 * time.Millisecond, hang, Unknown, ""},
		"while connecting":      {500 * time.Millisecond, hangUnconnected, NotSent, CallerLeft},
		"between two attempts":  {500 * time.Millisecond, respond(429, "", "Retry-After", "5"), Unknown, ""},
		"while a key is polled": {500 * time.Millisecond, respond(409, errorJSON("key_in_progress", "", testKey), "Retry-After", "5"), StillWorking, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := testClient(t, Config{}, newFakePSP(tc.step), noJitter)
				ctx, cancel := context.WithCancel(within(t, 30*time.Second))
				if tc.leaves == 0 {
					cancel()
				}
				time.AfterFunc(tc.leaves, cancel)
				start := time.Now()
				r := c.Charge(ctx, testRequest)
				if r.Kind != tc.want || r.NotSent != tc.reason || !errors.Is(r.Err, context.Canceled) || time.Since(start) != tc.leaves {
					t.Errorf("after %v, got %+v", time.Since(start), r)
				}
				if n := c.breaker.two.Counts(); n.TotalFailures != 0 || n.TotalSuccesses != 0 {
					t.Errorf("the breaker counted %+v", n)
				}
			})
		})
	}
}

func TestNotSentHoldsOnlyIfNoAttemptWasEverSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := testClient(t, Config{}, newFakePSP(refuse), noJitter)
		r := c.Charge(within(t, 30*time.Second), testRequest)
		if r.Kind != NotSent || r.NotSent != ConnectFailed || r.Attempts != 0 {
			t.Errorf("four refused: got %+v", r)
		}

		c = testClient(t, Config{}, newFakePSP(hang, refuse), noJitter)
		r = c.Charge(within(t, 30*time.Second), testRequest)
		if r.Kind != Unknown || r.NotSent != "" || r.Attempts != 1 {
			t.Errorf("one sent, three refused: got %+v", r)
		}

		c = testClient(t, Config{BreakerFailuresInRow: 1}, newFakePSP(hang), noJitter)
		r = c.Charge(within(t, 30*time.Second), testRequest)
		const want = "psp: charge 1: no answer within 2s; charge 2: breaker open: circuit breaker is open"
		if r.Kind != Unknown || r.NotSent != "" || r.Attempts != 1 {
			t.Errorf("one sent, then the breaker open: got %+v", r)
		}
		if diff := cmp.Diff(want, r.Err.Error()); diff != "" {
			t.Errorf("want (-), got (+):\n%s", diff)
		}
	})
}

// A first attempt charged and its answer was lost. Whatever refuses the second one, a proxy or the PSP itself, must not become the
// key's answer unless the PSP confirms it by key.
func TestARefusalAfterAnAttemptThatMayHaveChargedIsConfirmedFirst(t *testing.T) {
	t.Parallel()
	declined := respond(402, errorJSON("card_declined", "do_not_honor", testKey))
	var (
		sayDeclined = respond(200, byKeyJSON(testKey, "declined", `, "error": {"type": "card_declined", "code": "do_not_honor"}`))
		sayCanceled = respond(200, byKeyJSON(testKey, "canceled", ""))
		rejected    = respond(422, errorJSON("charge_rejected", "blocked", testKey))
		canceled    = respond(410, errorJSON("key_canceled", "", testKey))
	)
	for name, tc := range map[string]struct {
		steps    []step
		mayExist bool
		want     Kind
		requests []string
	}{
		"a decline, though it charged":              {[]step{drop, declined, found(chargeJSON(testKey, "succeeded"))}, false, Succeeded, []string{"0s POST", "100ms POST", "100ms GET"}},
		"a rejection, though it charged":            {[]step{drop, rejected, found(chargeJSON(testKey, "succeeded"))}, false, Succeeded, []string{"0s POST", "100ms POST", "100ms GET"}},
		"a cancelled key, though it charged":        {[]step{drop, canceled, found(chargeJSON(testKey, "succeeded"))}, false, Succeeded, []string{"0s POST", "100ms POST", "100ms GET"}},
		"a decline that is confirmed":               {[]step{drop, declined, sayDeclined}, false, Declined, []string{"0s POST", "100ms POST", "100ms GET"}},
		"a cancelled key that is confirmed":         {[]step{drop, canceled, sayCanceled}, false, Cancelled, []string{"0s POST", "100ms POST", "100ms GET"}},
		"a decline, and the look-up fails":          {[]step{drop, declined, respond(401, "")}, false, Unknown, []string{"0s POST", "100ms POST", "100ms GET"}},
		"a decline, and the key was never seen":     {[]step{drop, declined, neverSeen}, false, Unknown, []string{"0s POST", "100ms POST", "100ms GET"}},
		"a first answer needs no confirmation":      {[]step{declined}, false, Declined, []string{"0s POST"}},
		"a first answer to a key that was held":     {[]step{declined, found(chargeJSON(testKey, "succeeded"))}, true, Succeeded, []string{"0s POST", "0s GET"}},
		"a first answer after a refused connection": {[]step{refuse, declined}, false, Declined, []string{"0s POST", "100ms POST"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				psp := newFakePSP(tc.steps...)
				c := testClient(t, Config{}, psp, fullJitter)
				req := testRequest
				req.MayExist = tc.mayExist
				if r := c.Charge(within(t, 30*time.Second), req); r.Kind != tc.want {
					t.Errorf("got %+v; want %s", r, tc.want)
				}
				if diff := cmp.Diff(tc.requests, psp.requests()); diff != "" {
					t.Errorf("want (-), got (+):\n%s", diff)
				}
			})
		})
	}
}

func TestTheRetryBudgetIsSpentByRetriesAndEarnedBySuccesses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		psp := newFakePSP(unavailable)
		c := testClient(t, Config{BreakerOff: true}, psp, noJitter)
		ask := func() Result { return c.Charge(within(t, 30*time.Second), testRequest) }

		// 10 tokens: three calls of 4 attempts take 9, the next one takes the last, then nobody retries.
		var attempts []int
		for range 6 {
			attempts = append(attempts, ask().Attempts)
		}
		if diff := cmp.Diff([]int{4, 4, 4, 2, 1, 1}, attempts); diff != "" {
			t.Errorf("want (-), got (+):\n%s", diff)
		}
		if r := ask(); !strings.Contains(r.Err.Error(), "gave up: the retry budget is spent") {
			t.Errorf("got %v", r.Err)
		}

		// Nine successes are not enough for a retry, the tenth is. A decline is one.
		psp.then(charged)
		for range 8 {
			ask()
		}
		psp.then(respond(402, errorJSON("card_declined", "do_not_honor", testKey)))
		ask()
		psp.then(unavailable)
		if r := ask(); r.Attempts != 1 || c.budget.left() != 9 {
			t.Errorf("%d attempts, %d tenths left", r.Attempts, c.budget.left())
		}
		psp.then(charged)
		ask()
		psp.then(unavailable)
		if r := ask(); r.Attempts != 2 || c.budget.left() != 0 {
			t.Errorf("%d attempts, %d tenths left", r.Attempts, c.budget.left())
		}
	})
}

func TestTheRetryBudgetNeverHoldsMoreThanItsSize(t *testing.T) {
	t.Parallel()
	b := newBudget(Config{BudgetTokens: 2, BudgetTenthsPerSuccess: 7})
	b.take()
	b.earn()
	b.earn()
	if b.left() != 20 {
		t.Errorf("%d tenths, want 20", b.left())
	}
}

func TestEachRetryIsLoggedWithAttemptWaitAndReason(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		logger := slog.New(slog.NewJSONHandler(&out, nil))
		c := testClient(t, Config{Logger: logger, MaxAttempts: 3}, newFakePSP(unavailable, refuse, hang), fullJitter)
		c.Charge(within(t, 30*time.Second), testRequest)
		type line struct {
			Msg, Operation, Reason, Spent string
			Attempt                       int
			Wait                          time.Duration
		}
		var got []line
		for dec := json.NewDecoder(&out); dec.More(); {
			var l line
			if err := dec.Decode(&l); err != nil {
				t.Fatal(err)
			}
			got = append(got, l)
		}
		want := []line{
			{"psp retry", "charge", "503", "", 1, 100 * time.Millisecond},
			{"psp retry", "charge", "connect_failed", "", 2, 200 * time.Millisecond},
			{"psp call given up", "charge", "timeout", "attempts", 3, 400 * time.Millisecond},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("want (-), got (+):\n%s", diff)
		}
		if strings.Contains(out.String(), testKey) {
			t.Error("the log tells the key")
		}
	})
}
