package lab

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPoliciesWaitWithinTheirRange(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	c := backoffCurve{100 * ms, 1000 * ms}
	tests := []struct {
		p         policy
		n         int
		last      time.Duration
		low, high time.Duration
	}{
		{noWait(), 3, 0, 0, 0},
		{fixedWait(500 * ms), 3, 0, 500 * ms, 500 * ms},
		{exponentialWait(c), 0, 0, 100 * ms, 100 * ms},
		{exponentialWait(c), 3, 0, 800 * ms, 800 * ms},
		{exponentialWait(c), 4, 0, 1000 * ms, 1000 * ms},
		{exponentialWait(c), 100, 0, 1000 * ms, 1000 * ms},
		{fullJitter(c), 0, 0, 0, 100 * ms},
		{fullJitter(c), 9, 0, 0, 1000 * ms},
		{decorrelatedJitter(c), 0, 0, 100 * ms, 300 * ms},
		{decorrelatedJitter(c), 1, 200 * ms, 100 * ms, 600 * ms},
		{decorrelatedJitter(c), 9, 1000 * ms, 100 * ms, 1000 * ms},
		{equalJitter(c), 1, 0, 100 * ms, 200 * ms},
		{plusMinus20(c), 0, 0, 80 * ms, 120 * ms},
	}
	for _, tt := range tests {
		draw := rand.New(rand.NewPCG(1, 2))
		least, most := time.Duration(1<<62), time.Duration(0)
		for range 1000 {
			d := tt.p.wait(draw, tt.n, tt.last)
			least, most = min(least, d), max(most, d)
		}
		if least < tt.low || most > tt.high {
			t.Errorf("%s, failure %d after %v: %v to %v, want within %v and %v", tt.p.name, tt.n, tt.last, least, most, tt.low, tt.high)
		}
		if slack := (tt.high - tt.low) / 20; least > tt.low+slack || most < tt.high-slack {
			t.Errorf("%s, failure %d after %v: %v to %v, want all of %v to %v", tt.p.name, tt.n, tt.last, least, most, tt.low, tt.high)
		}
	}
}

func TestRetryEndsBySuccessErrorOrTries(t *testing.T) {
	t.Parallel()
	errBroken := errors.New("broken")
	tests := []struct {
		name string
		try  func(made int) (bool, error)
		made int
		ok   bool
		err  error
		took time.Duration
	}{
		{"success", func(made int) (bool, error) { return made == 3, nil }, 3, true, nil, 2 * time.Second},
		{"error", func(made int) (bool, error) { return false, errBroken }, 1, false, errBroken, 0},
		{"tries", func(int) (bool, error) { return false, nil }, 5, false, nil, 4 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began, n := time.Now(), 0
				made, ok, err := fixedWait(time.Second).retry(t.Context(), nil, 5, func() (bool, error) { n++; return tt.try(n) })
				if made != tt.made || ok != tt.ok || !errors.Is(err, tt.err) || n != tt.made || time.Since(began) != tt.took {
					t.Errorf("%d tries, %t, %v, after %v", made, ok, err, time.Since(began))
				}
			})
		})
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := fixedWait(time.Hour).retry(ended, nil, 5, func() (bool, error) { return false, nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
}

func TestWeakPSPIsDownAndThenServesWhatItCan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		behind := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
		weak := newWeakPSP(behind, stormNumbers{Outage: time.Second, PerSecond: 10, Burst: 2})
		weak.start()
		ask := func(path string) int {
			w := httptest.NewRecorder()
			weak.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, nil))
			return w.Code
		}
		var got []int
		got = append(got, ask(chargesPath), ask("/healthz"))
		<-time.After(time.Second) // of the fake clock
		got = append(got, ask(chargesPath), ask(chargesPath), ask(chargesPath))
		<-time.After(100 * time.Millisecond)
		got = append(got, ask(chargesPath), ask(chargesPath))
		want := []int{503, 201, 201, 201, 503, 201, 503}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("answers (-want +got):\n%s", diff)
		}
		const s = time.Second
		if diff := cmp.Diff([]time.Duration{0, s, s, s, s + 100*time.Millisecond, s + 100*time.Millisecond}, weak.asked()); diff != "" {
			t.Errorf("charges asked for (-want +got):\n%s", diff)
		}
	})
}

func TestStormIsJudgedOnlyWhenTheWaveWasOne(t *testing.T) {
	t.Parallel()
	n := stormNumbers{Clients: 4, Base: 100 * time.Millisecond}
	wave := func(size int) stormRun { return stormRun{arrivals: make([]time.Duration, size), requests: 40} }
	through := stormRun{done: make([]time.Duration, 4), requests: 20, arrivals: make([]time.Duration, 2)}
	tests := []struct {
		name                           string
		fixed, exponential, full, ours stormRun
		checks, missed                 int
	}{
		{"a wave, and jitter is better", wave(4), wave(4), through, through, 7, 0},
		{"a busy machine", wave(4), wave(2), through, through, 2, 0},
		{"jitter gives up", wave(4), wave(2), stormRun{}, through, 2, 1},
		{"our client gives up", wave(4), wave(2), through, stormRun{}, 2, 1},
		{"jitter comes as a wave too", wave(4), wave(4), stormRun{done: through.done, arrivals: wave(4).arrivals}, through, 7, 2},
		{"jitter takes as many requests", wave(4), wave(4), stormRun{done: through.done, requests: 40}, through, 7, 1},
		{"all get through without", wave(4), stormRun{done: through.done, requests: 40, arrivals: wave(4).arrivals}, through, through, 7, 1},
	}
	for _, tt := range tests {
		var r Report
		n.check(&r, []stormRun{wave(0), tt.fixed, tt.exponential, tt.full, tt.ours})
		if len(r.Checks) != tt.checks || len(r.Missed(true)) != tt.missed {
			t.Errorf("%s: %d checks and missed %v, want %d and %d of them", tt.name, len(r.Checks), r.Missed(true), tt.checks, tt.missed)
		}
	}
}

func TestMomentsAreCountedPerWindow(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	got := perWindow([]time.Duration{0, 99 * ms, 100 * ms, 350 * ms}, 100*ms)
	if diff := cmp.Diff([]int{2, 1, 0, 1}, got); diff != "" {
		t.Error(diff)
	}
	for width, most := range map[time.Duration]int{1: 1, 2 * ms: 2, 101 * ms: 3, time.Second: 4} {
		if got := densest([]time.Duration{350 * ms, 99 * ms, 0, 100 * ms}, width); got != most {
			t.Errorf("within %v: %d, want %d", width, got, most)
		}
	}
	want := Series{Name: "calls", X: []float64{0, 0.1}, Y: []float64{1, 1}}
	if diff := cmp.Diff(want, windowSeries("calls", []time.Duration{0, 100 * ms}, 100*ms)); diff != "" {
		t.Error(diff)
	}
}

func TestStormNumbersAreChecked(t *testing.T) {
	t.Parallel()
	for _, n := range []stormNumbers{{Base: time.Microsecond, Cap: time.Second}, {Base: time.Second, Cap: time.Millisecond}} {
		if n.Validate() == nil {
			t.Errorf("%v and %v were let through", n.Base, n.Cap)
		}
	}
}
