package reconcile_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/reconcile"
)

// Somebody who looks on sees every phase begin, in order, and the counted ones come to their end.
func TestProgressLeadsThroughThePhases(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatewaysim.Config{PendingAfter: time.Hour})
	for range 4 {
		e.charge(e.stuck(), "tok_pending")
	}
	var mu sync.Mutex
	var phases []string
	furthest := map[string]reconcile.Progress{}
	rep := e.pass(func(c *reconcile.Config) {
		c.PageSize, c.PendingAfter = 3, time.Nanosecond
		c.Progress = func(p reconcile.Progress) {
			mu.Lock()
			defer mu.Unlock()
			if len(phases) == 0 || phases[len(phases)-1] != p.Phase {
				phases = append(phases, p.Phase)
			}
			if p.Done >= furthest[p.Phase].Done { // several goroutines tell
				furthest[p.Phase] = p
			}
		}
	})
	if rep.Stuck.Charged != 4 {
		t.Fatalf("%+v", rep)
	}
	if diff := cmp.Diff([]string{"stuck keys", "pending charges", "statement", "inbox", "purge"}, phases); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
	for _, name := range []string{"stuck keys", "statement"} {
		if got := furthest[name]; got.Done != 4 || got.Share != 1 {
			t.Errorf("the end of %s: %+v", name, got)
		}
	}
}
