package psp

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sony/gobreaker/v2"
)

// once makes a client that does not retry, so that each call is one for the breaker.
func once(t *testing.T, cfg Config, psp *fakePSP) (c *Client, ask func() Result) {
	t.Helper()
	cfg.MaxAttempts = 1
	c = testClient(t, cfg, psp, noJitter)
	return c, func() Result { return c.Charge(within(t, 30*time.Second), testRequest) }
}

// advance lets d pass on the bubble's clock.
func advance(t *testing.T, d time.Duration) {
	t.Helper()
	if err := sleep(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

func wantState(t *testing.T, c *Client, want gobreaker.State) {
	t.Helper()
	if got := c.breaker.current(); got != want {
		t.Errorf("the breaker is %v, want %v", got, want)
	}
}

func TestFiveFailuresInARowOpenTheBreakerAndOneProbeClosesIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		psp := newFakePSP(unavailable)
		c, ask := once(t, Config{}, psp)
		for range 4 {
			ask()
		}
		wantState(t, c, gobreaker.StateClosed)
		ask()
		wantState(t, c, gobreaker.StateOpen)

		advance(t, 400*time.Millisecond)
		r := ask()
		if r.Kind != NotSent || r.NotSent != BreakerOpen || r.RetryAfter != 600*time.Millisecond || r.Attempts != 0 ||
			!errors.Is(r.Err, errBreakerOpen) {
			t.Errorf("got %+v", r)
		}

		advance(t, 600*time.Millisecond+1)
		ask() // the probe fails
		wantState(t, c, gobreaker.StateOpen)
		if r := ask(); r.NotSent != BreakerOpen || r.RetryAfter != time.Second {
			t.Errorf("got %+v", r)
		}

		advance(t, time.Second+1)
		psp.then(charged)
		if r := ask(); r.Kind != Succeeded {
			t.Errorf("got %+v", r)
		}
		wantState(t, c, gobreaker.StateClosed)
		if n := len(psp.requests()); n != 7 {
			t.Errorf("%d requests, want 7: five, and two probes", n)
		}
	})
}

func TestAnySuccessEndsARowOfFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		psp := newFakePSP(unavailable)
		c, ask := once(t, Config{}, psp)
		for _, verdict := range []step{
			charged, respond(402, errorJSON("card_declined", "do_not_honor", testKey)), respond(422, errorJSON("charge_rejected", "x", testKey)),
		} {
			psp.then(unavailable)
			for range 4 {
				ask()
			}
			psp.then(verdict)
			ask()
		}
		wantState(t, c, gobreaker.StateClosed)
	})
}

// TestHalfOfTwentyCallsOpenTheBreaker: the rate is over the calls that ended as a success or a failure, from 20 on.
func TestHalfOfTwentyCallsOpenTheBreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		psp := newFakePSP(charged)
		c, ask := once(t, Config{}, psp)
		alternate := func(n int) {
			for i := range n {
				psp.then(charged)
				if i%2 == 1 {
					psp.then(respond(500, ""))
				}
				ask()
			}
		}
		psp.then(respond(429, ""))
		for range 30 {
			ask()
		}
		alternate(19)
		wantState(t, c, gobreaker.StateClosed)
		psp.then(respond(500, ""))
		ask()
		wantState(t, c, gobreaker.StateOpen)
	})
}

func TestTheWindowForgetsWhatIsOlderThanTenSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		psp := newFakePSP(charged)
		c, ask := once(t, Config{}, psp)
		for range 3 {
			psp.then(respond(500, ""))
			ask()
			ask()
			ask()
			psp.then(charged)
			ask()
			ask()
			ask()
		}
		// 9 of 18 failed. After 11 s they are gone: 1 of 20 is no half, and 4 in a row are no five.
		advance(t, 11*time.Second)
		for range 19 {
			ask()
		}
		psp.then(respond(500, ""))
		for range 4 {
			ask()
		}
		wantState(t, c, gobreaker.StateClosed)
		ask()
		wantState(t, c, gobreaker.StateOpen)
	})
}

func TestNeutralAnswersNeitherOpenNorClose(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]step{
		"408": respond(408, ""), "429": respond(429, ""), "400": respond(400, ""), "401": respond(401, ""), "403": respond(403, ""),
		"404": respond(404, ""), "413": respond(413, ""), "a page of a proxy": respond(200, "<html>"), "301": respond(301, ""),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				psp := newFakePSP(respond(500, ""))
				c, ask := once(t, Config{}, psp)
				for range 4 {
					ask()
				}
				psp.then(s)
				for range 30 {
					ask()
				}
				wantState(t, c, gobreaker.StateClosed)
				psp.then(respond(500, ""))
				ask() // the fifth in a row
				wantState(t, c, gobreaker.StateOpen)

				// A neutral probe leaves the place to the next one.
				advance(t, time.Second+1)
				psp.then(s)
				for range 3 {
					if r := ask(); r.NotSent == BreakerOpen {
						t.Fatalf("got %+v", r)
					}
				}
				wantState(t, c, gobreaker.StateHalfOpen)
				psp.then(charged)
				ask()
				wantState(t, c, gobreaker.StateClosed)
			})
		})
	}
}

func TestAConflictIsNeutralForTheBreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := testClient(t, Config{}, newFakePSP(inProgress), noJitter)
		q := call{op: opCharge, method: "POST", path: "charges", key: testKey}
		for range 30 {
			c.attempt(t.Context(), &trip{}, q, 1)
		}
		if n := c.breaker.two.Counts(); n.TotalExclusions != 30 || n.TotalSuccesses+n.TotalFailures != 0 {
			t.Errorf("the breaker counted %+v", n)
		}
	})
}

func TestWhatIsAFailureForTheBreaker(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		step     step
		deadline time.Duration
	}{
		"time-out": {hang, 30 * time.Second}, "the caller's shorter deadline": {hang, 300 * time.Millisecond},
		"no connection in the caller's time": {hangUnconnected, 300 * time.Millisecond},
		"dropped":                            {drop, time.Second}, "refused": {refuse, time.Second}, "500": {respond(500, ""), time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := testClient(t, Config{MaxAttempts: 1}, newFakePSP(tc.step), noJitter)
				for range 5 {
					c.Charge(within(t, tc.deadline), testRequest)
				}
				wantState(t, c, gobreaker.StateOpen)
			})
		})
	}
}

// background starts n calls and returns a function that waits for their results.
func background(n int, ask func() Result) (results func() []Result) {
	var wg sync.WaitGroup
	all := make([]Result, n)
	for i := range n {
		wg.Go(func() { all[i] = ask() })
	}
	return func() []Result { wg.Wait(); return all }
}

func TestSlowCallsOpenTheBreakerWhileTheyRunAndTheirAnswersAreUsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		psp := newFakePSP(after(1500*time.Millisecond, charged))
		c, ask := once(t, Config{}, psp)
		results := background(5, ask)

		advance(t, 999*time.Millisecond)
		wantState(t, c, gobreaker.StateClosed)
		advance(t, time.Millisecond)
		wantState(t, c, gobreaker.StateOpen)
		if r := ask(); r.NotSent != BreakerOpen {
			t.Errorf("got %+v", r)
		}

		for _, r := range results() {
			if r.Kind != Succeeded {
				t.Errorf("got %+v", r)
			}
		}
		wantState(t, c, gobreaker.StateOpen) // Their late success changes nothing.
	})
}

func TestASlowCallIsReportedOnce(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		step      step
		successes uint32
	}{
		"it succeeds in the end": {after(1500*time.Millisecond, charged), 0},
		"it times out":           {hang, 0},
		"it ends in a 500":       {after(1500*time.Millisecond, respond(500, "")), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c, ask := once(t, Config{}, newFakePSP(tc.step))
				results := background(4, ask)
				advance(t, time.Second)
				reported := c.breaker.two.Counts()
				results()
				if n := c.breaker.two.Counts(); n != reported || n.TotalFailures != 4 || n.ConsecutiveFailures != 4 {
					t.Errorf("at the mark %+v, at the end %+v", reported, n)
				}
				wantState(t, c, gobreaker.StateClosed)
			})
		})
	}
}

func TestASlowProbeOpensTheBreakerAgainAndItsAnswerIsUsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		psp := newFakePSP(respond(500, ""))
		c, ask := once(t, Config{SlowAfter: 800 * time.Millisecond}, psp)
		for range 5 {
			ask()
		}
		advance(t, time.Second+1)
		psp.then(after(1500*time.Millisecond, charged))
		probe := background(1, ask)
		advance(t, 300*time.Millisecond)
		wantState(t, c, gobreaker.StateHalfOpen)
		// While the probe runs there is no other; by the slow mark it is judged.
		if r := ask(); r.NotSent != BreakerOpen || r.RetryAfter != 500*time.Millisecond {
			t.Errorf("got %+v", r)
		}
		advance(t, 500*time.Millisecond)
		wantState(t, c, gobreaker.StateOpen)
		if r := probe()[0]; r.Kind != Succeeded {
			t.Errorf("got %+v", r)
		}
		wantState(t, c, gobreaker.StateOpen)
	})
}

func TestAPSPThatIsSlowBelowTheMarkKeepsTheBreakerClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := testClient(t, Config{MaxAttempts: 1}, newFakePSP(charged), noJitter)
		for i := range 200 {
			step := after(600*time.Millisecond, charged)
			if i%2 == 1 {
				step = after(900*time.Millisecond, charged)
			}
			c.transport.(*fakePSP).then(step)
			if r := c.Charge(within(t, time.Second), testRequest); r.Kind != Succeeded {
				t.Fatalf("got %+v", r)
			}
		}
		if n := c.breaker.two.Counts(); n.TotalFailures != 0 {
			t.Errorf("the breaker counted %+v", n)
		}
	})
}

func TestTheOpenTimeIsDrawnOncePerClientWithinTenPercent(t *testing.T) {
	t.Parallel()
	for draw, want := range map[float64]time.Duration{0: 900 * time.Millisecond, 0.5: time.Second, 1: 1100 * time.Millisecond} {
		b := newBreaker(Config{OpenFor: time.Second}.withDefaults(), draw)
		if got := (&Client{breaker: b}).OpenFor(); got != want {
			t.Errorf("draw %v: open for %v, want %v", draw, got, want)
		}
	}
}

func TestChangesOfTheBreakersStateAreLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		psp := newFakePSP(respond(500, ""))
		_, ask := once(t, Config{Logger: slog.New(slog.NewJSONHandler(&out, nil))}, psp)
		for range 5 {
			ask()
		}
		advance(t, time.Second+1)
		psp.then(charged)
		ask()
		type change struct{ Level, Msg, From, To string }
		var got []change
		for dec := json.NewDecoder(&out); dec.More(); {
			var c change
			if err := dec.Decode(&c); err != nil {
				t.Fatal(err)
			}
			got = append(got, c)
		}
		want := []change{
			{"WARN", "psp breaker changed state", "closed", "open"},
			{"INFO", "psp breaker changed state", "open", "half-open"},
			{"INFO", "psp breaker changed state", "half-open", "closed"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("want (-), got (+):\n%s", diff)
		}
	})
}

func TestTwoClientsShareNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one, askOne := once(t, Config{}, newFakePSP(respond(500, "")))
		other, askOther := once(t, Config{}, newFakePSP(charged))
		for range 5 {
			askOne()
		}
		wantState(t, one, gobreaker.StateOpen)
		wantState(t, other, gobreaker.StateClosed)
		if r := askOther(); r.Kind != Succeeded {
			t.Errorf("got %+v", r)
		}
	})
}
