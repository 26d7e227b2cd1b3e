package psp

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"
)

func TestAFullBulkheadRefusesAfterAShortWaitAndLeavesTheBreakerAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		psp := newFakePSP(after(500*time.Millisecond, charged))
		c, ask := once(t, Config{}, psp)
		results := background(64, ask)
		synctest.Wait()

		start := time.Now()
		r := ask()
		if took := time.Since(start); r.Kind != NotSent || r.NotSent != BulkheadFull || r.Attempts != 0 || took != 50*time.Millisecond {
			t.Errorf("after %v, got %+v", took, r)
		}
		start = time.Now()
		r = c.Charge(within(t, 30*time.Millisecond), testRequest)
		if took := time.Since(start); r.NotSent != BulkheadFull || took != 30*time.Millisecond || !errors.Is(r.Err, context.DeadlineExceeded) {
			t.Errorf("after %v, got %+v", took, r)
		}
		advance(t, 380*time.Millisecond)
		if r := ask(); r.Kind != Succeeded { // A slot comes free 40 ms later.
			t.Errorf("got %+v", r)
		}
		for _, r := range results() {
			if r.Kind != Succeeded {
				t.Errorf("got %+v", r)
			}
		}
		if n := c.breaker.two.Counts(); n.TotalFailures != 0 || n.TotalExclusions != 2 || n.TotalSuccesses != 65 {
			t.Errorf("the breaker counted %+v", n)
		}
		if c.bulkhead.inUse() != 0 {
			t.Errorf("%d slots still taken", c.bulkhead.inUse())
		}
	})
}

func TestAFullBulkheadDoesNotLoseTheProbe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		psp := newFakePSP(hang)
		c, ask := once(t, Config{Slots: 5, AttemptTimeout: 10 * time.Second, SlowAfter: time.Second}, psp)
		hung := background(5, ask)
		advance(t, 2*time.Second+1) // All slots are taken; the slow marks opened the breaker; its time is over.
		for range 3 {
			if r := ask(); r.NotSent != BulkheadFull {
				t.Errorf("got %+v", r)
			}
		}
		psp.then(charged)
		hung()
		if r := ask(); r.Kind != Succeeded {
			t.Errorf("got %+v", r)
		}
		wantState(t, c, gobreaker.StateClosed)
	})
}
