package bench

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// pause sleeps by the test's clock.
func pause(ctx context.Context, t *testing.T, d time.Duration) error {
	t.Helper()
	return sleepUntil(ctx, time.Now().Add(d))
}

func TestClosedLoopCountsWhatEndedInTheWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := ahead(time.Second, 10*time.Second)
		s, err := closedLoop(t.Context(), 3, w, func(ctx context.Context, _ int) error { return pause(ctx, t, 300*time.Millisecond) })
		if err != nil {
			t.Fatal(err)
		}
		// One every 300 ms: of each worker's the 4th to the 36th end in the window, the 5th to the 37th begin in it.
		if s.done != 3*33 || len(s.took) != 3*33 || s.took[0] != 300*time.Millisecond || s.took[len(s.took)-1] != 300*time.Millisecond {
			t.Errorf("%d done, %d timed", s.done, len(s.took))
		}
	})
}

func TestOpenLoopTimesFromTheMomentThatWasDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// One worker, one arrival a second, and the first takes 3.5 s: it keeps waiting the three that are due meanwhile.
		var n atomic.Int64
		s, err := openLoop(t.Context(), 1, 1, ahead(0, 6*time.Second), func(ctx context.Context, _ int) error {
			if n.Add(1) == 1 {
				return pause(ctx, t, 3500*time.Millisecond)
			}
			return pause(ctx, t, 100*time.Millisecond)
		})
		if err != nil {
			t.Fatal(err)
		}
		want := []time.Duration{100 * time.Millisecond, 100 * time.Millisecond, 800 * time.Millisecond,
			1700 * time.Millisecond, 2600 * time.Millisecond, 3500 * time.Millisecond}
		if diff := cmp.Diff(want, s.took); diff != "" {
			t.Error(diff)
		}
	})
}

func TestErrorOfOneWorkerEndsTheLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		errBroken := errors.New("broken")
		do := func(ctx context.Context, worker int) error {
			if worker == 1 {
				return errBroken
			}
			return pause(ctx, t, time.Hour)
		}
		if _, err := closedLoop(t.Context(), 2, ahead(0, time.Minute), do); !errors.Is(err, errBroken) {
			t.Errorf("closed loop: %v", err)
		}
		if _, err := openLoop(t.Context(), 2, 10, ahead(0, time.Minute), do); !errors.Is(err, errBroken) {
			t.Errorf("open loop: %v", err)
		}
	})
}

func TestQuantileIsByNearestRank(t *testing.T) {
	t.Parallel()
	var values []time.Duration
	for i := range 1000 {
		values = append(values, time.Duration(i+1))
	}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 500, 0.99: 990, 0.999: 999, 1: 1000} {
		if got := quantile(values, q); got != want {
			t.Errorf("%v: %d, want %d", q, got, want)
		}
	}
	if got := quantile(nil, 0.5); got != 0 {
		t.Errorf("of none: %d", got)
	}
}

func TestCPUTimeIsReadBehindWhateverNameTheProcessHas(t *testing.T) {
	t.Parallel()
	const stat = "42 (a) R 1) S 1 42 42 0 -1 4194560 1 2 3 4 150 25 7 8 20 0 9 0 100 200 300"
	if got, err := parseStat([]byte(stat)); err != nil || got != 1750*time.Millisecond {
		t.Errorf("%v, %v; want 1.75 s", got, err)
	}
	for _, bad := range []string{"", "42 (x) S 1 2 3", "42 (x) S 1 42 42 0 -1 4194560 1 2 3 4 one 25 7"} {
		if _, err := parseStat([]byte(bad)); !errors.Is(err, errProc) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestStockNeverTakesAKeyInProgressForOneThatIsDone(t *testing.T) {
	t.Parallel()
	for _, perUser := range []int{2, 10, 11, 12, 631} {
		st := stock{perUser: perUser}
		open := map[string]bool{}
		for j := 0; j < perUser; j += inProgressEvery {
			open[st.keyAt(j)] = true
		}
		for range 2000 {
			if key := st.done().key; open[key] {
				t.Fatalf("%d keys: %s is in progress", perUser, key)
			}
			if key := st.inProgress().key; !open[key] {
				t.Fatalf("%d keys: %s is done", perUser, key)
			}
		}
	}
}

// restServer answers every request in one way, and counts connections.
func restServer(t *testing.T, answer http.HandlerFunc) (caller *restCaller, connections *atomic.Int64) {
	t.Helper()
	connections = &atomic.Int64{}
	s := httptest.NewUnstartedServer(answer)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	c := &restCaller{addr: s.Listener.Addr().String(), keys: make([]string, users)}
	t.Cleanup(func() {
		if err := c.close(); err != nil {
			t.Error(err)
		}
	})
	return c, connections
}

func TestRESTAnswers(t *testing.T) {
	t.Parallel()
	const open = `{"reason":"IDEMPOTENCY_KEY_IN_PROGRESS","next_action":"retry_same_key"}`
	p := purchase{key: "k", order: "o-1"}
	tests := map[string]struct {
		code     int
		body     string
		replayed string
		want     answer
	}{
		"charged":           {201, `{"id":"pay_1","order_id":"o-1"}`, "", answer{charged: true}},
		"replayed":          {201, `{"id":"pay_1","order_id":"o-1"}`, "true", answer{charged: true, replayed: true}},
		"another order's":   {201, `{"id":"pay_1","order_id":"o-2"}`, "", answer{reason: "201 with another order's payment"}},
		"in progress":       {409, open, "", answer{reason: reasonInProgress, again: true}},
		"final":             {422, `{"reason":"IDEMPOTENCY_KEY_REUSED","next_action":"new_key"}`, "", answer{reason: "IDEMPOTENCY_KEY_REUSED"}},
		"not the service's": {502, `<html>`, "", answer{reason: "HTTP 502 without a reason", again: true}},
		"without a reason":  {503, `{}`, "", answer{reason: "HTTP 503 without a reason", again: true}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, connections := restServer(t, func(w http.ResponseWriter, _ *http.Request) {
				if tt.replayed != "" {
					w.Header().Set("Idempotent-Replayed", tt.replayed)
				}
				w.WriteHeader(tt.code)
				if _, err := w.Write([]byte(tt.body)); err != nil {
					t.Error(err)
				}
			})
			for range 3 {
				if diff := cmp.Diff(tt.want, c.try(t.Context(), p), cmp.AllowUnexported(answer{})); diff != "" {
					t.Error(diff)
				}
			}
			if n := connections.Load(); n != 1 {
				t.Errorf("%d connections, want one for all three", n)
			}
		})
	}
}

func TestRESTRequestIsOneThatNetHTTPReads(t *testing.T) {
	t.Parallel()
	c := &restCaller{addr: "127.0.0.1:80", keys: []string{"sk_0", "sk_1"}}
	client, server := net.Pipe()
	t.Cleanup(func() {
		if err := errors.Join(client.Close(), server.Close()); err != nil {
			t.Error(err)
		}
	})
	written := make(chan error, 1)
	go func() {
		_, err := client.Write(c.request(purchase{user: 1, key: "k-1", order: "o-1"}))
		written <- err
	}()
	req, err := http.ReadRequest(bufio.NewReader(server))
	if err != nil {
		t.Fatal(err)
	}
	body := make([]byte, req.ContentLength)
	if _, err := bufio.NewReader(req.Body).Read(body); err != nil {
		t.Fatal(err)
	}
	const want = `{"order_id":"o-1","amount":"1999","currency":"EUR","payment_method":"tok_visa","description":"bench"}`
	if got := req.Header.Get("Authorization") + " " + req.Header.Get("Idempotency-Key"); got != "Bearer sk_1 k-1" || string(body) != want {
		t.Errorf("%s\n%s", got, body)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
}

func TestRESTConnectionThatFailedIsReplaced(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	c, connections := restServer(t, func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) == 1 {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusCreated)
		if _, err := w.Write([]byte(`{"order_id":"o-1"}`)); err != nil {
			t.Error(err)
		}
	})
	var told tally
	if err := told.until(t.Context(), c, purchase{key: "k", order: "o-1"}, func(a answer) bool { return a.charged }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int64{"no answer: connection closed": 1}, told.refused); diff != "" || connections.Load() != 2 {
		t.Errorf("%d connections\n%s", connections.Load(), diff)
	}
}

// scripted answers in turn, the last answer for ever.
type scripted struct {
	answers []answer
	asked   int
}

func (s *scripted) try(context.Context, purchase) answer {
	s.asked++
	return s.answers[min(s.asked, len(s.answers))-1]
}

func (s *scripted) close() error { return nil }

func TestPurchaseIsSentUntilItIsSettled(t *testing.T) {
	t.Parallel()
	full := answer{reason: "OVERLOADED", again: true}
	tests := map[string]struct {
		answers []answer
		asked   int
		err     error
	}{
		"at once":       {[]answer{{charged: true}}, 1, nil},
		"after refusal": {[]answer{full, full, {charged: true}}, 3, nil},
		"final":         {[]answer{full, {reason: "CARD_DECLINED"}}, 2, errWrong},
		"never":         {[]answer{full}, tries, errUnsettled},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &scripted{answers: tt.answers}
				var told tally
				err := told.until(t.Context(), s, newPurchase(), func(a answer) bool { return a.charged })
				if s.asked != tt.asked || !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
					t.Errorf("asked %d times, %v; want %d, %v", s.asked, err, tt.asked, tt.err)
				}
			})
		})
	}
}
