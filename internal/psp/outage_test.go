package psp

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestAHungPSPHoldsFewCalls plays an outage on the fake clock: 50 requests/s for 10 s, a PSP that answers in 20 ms but hangs from
// second 2 to 6, an attempt time-out of 1 s with the slow mark at half of it, and no retry.
func TestAHungPSPHoldsFewCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const begin, end = 2 * time.Second, 6 * time.Second
		start := time.Now()
		var mu sync.Mutex
		var duringHang, waiting, most int
		var recovered time.Duration
		psp := newFakePSP(func(req *http.Request) (*http.Response, error) {
			at := time.Since(start)
			if at < begin || at >= end {
				return after(20*time.Millisecond, charged)(req)
			}
			mu.Lock()
			duringHang++
			waiting++
			most = max(most, waiting)
			mu.Unlock()
			defer func() { mu.Lock(); waiting--; mu.Unlock() }()
			return hang(req)
		})
		c, ask := once(t, Config{AttemptTimeout: time.Second}, psp)
		var users sync.WaitGroup
		quick := 0
		for i := range 500 {
			users.Go(func() {
				asked := time.Since(start)
				r := ask()
				mu.Lock()
				defer mu.Unlock()
				if asked >= begin && asked < end && time.Since(start) == asked {
					quick++
				}
				if r.Kind == Succeeded && asked >= end && recovered == 0 {
					recovered = time.Since(start) - end
				}
			})
			if i < 499 {
				advance(t, 20*time.Millisecond)
			}
		}
		users.Wait()
		t.Logf("waiting at most %d; %d calls during the hang; %d of 200 requests refused at once; recovered after %v", most, duringHang, quick, recovered)
		if most > 33 || duringHang > 34 || quick <= 100 || recovered == 0 || recovered > c.cfg.SlowAfter+c.OpenFor()+50*time.Millisecond {
			t.Errorf("waiting at most %d (want ≤ 33), %d calls during the hang (≤ 34), %d refused at once (> 100), recovered after %v (≤ 1.55s)",
				most, duringHang, quick, recovered)
		}
	})
}

// TestAnOutageIsNotAmplified: over 10 s of 50 requests/s to a PSP that is down, the calls stay below 1.1 × requests + 10, even with the
// breaker off; with it on they are a few.
func TestAnOutageIsNotAmplified(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cfg  Config
		most int
	}{
		"budget and breaker":       {Config{}, 25},
		"budget alone":             {Config{BreakerOff: true}, 510},
		"neither: four times each": {Config{BreakerOff: true, BudgetOff: true}, 2000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				psp := newFakePSP(unavailable)
				c := testClient(t, tc.cfg, psp, fullJitter)
				var users sync.WaitGroup
				for range 500 {
					users.Go(func() { c.Charge(within(t, 10*time.Second), testRequest) })
					advance(t, 20*time.Millisecond)
				}
				users.Wait()
				n := len(psp.requests())
				t.Logf("%d calls for 500 requests", n)
				if n > tc.most {
					t.Errorf("%d calls, want at most %d", n, tc.most)
				}
			})
		})
	}
}
