package reconcile_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/reconcile"
)

// A lost webhook is made up for: the charge's end is asked for, and the key's stored 202 stays what it was.
func pendingChargeIsAskedFor(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, token string
		want        string
	}{
		{"it succeeds", "tok_pending", "done 202 pending / succeeded 1999"},
		{"it fails", "tok_pending_fails", "done 202 pending / failed 1999"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, gatewaysim.Config{PendingAfter: 300 * time.Millisecond})
			p := e.stuck()
			e.charge(p, tt.token)
			only := func(c *reconcile.Config) { c.Quiet, c.PendingAfter = time.Hour, time.Hour }
			if rep := e.pass(only); rep.Stuck.Charged != 1 {
				t.Fatalf("not finished: %+v", rep.Stuck)
			}
			if got := e.state(p); got != "done 202 pending / pending 1999" {
				t.Fatalf("state %s", got)
			}
			eventually(t, func() bool {
				rep := e.pass(func(c *reconcile.Config) { c.Quiet = time.Hour })
				if rep.ExitCode() != 0 {
					t.Errorf("exit %d: %+v", rep.ExitCode(), rep)
				}
				return rep.Pending.Changed == 1
			})
			if diff := cmp.Diff(tt.want, e.state(p)); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
			if rep := e.pass(func(c *reconcile.Config) { c.Quiet = time.Hour }); rep.Pending.Asked != 0 {
				t.Errorf("asked again: %+v", rep.Pending)
			}
		})
	}
}

func TestStillPendingIsAskedOncePerPass(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatewaysim.Config{PendingAfter: time.Hour})
	for range 5 {
		e.charge(e.stuck(), "tok_pending")
	}
	rep := e.pass(func(c *reconcile.Config) { c.Quiet, c.PendingAfter = time.Hour, time.Hour })
	if rep.Stuck.Charged != 5 || rep.Pending.Asked != 0 {
		t.Fatalf("young ones: %+v %+v", rep.Stuck, rep.Pending)
	}
	rep = e.pass(func(c *reconcile.Config) { c.Quiet, c.Batch = time.Hour, 2 })
	if diff := cmp.Diff(reconcile.Pending{Asked: 5, Still: 5}, rep.Pending); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

func TestPendingChargeThatThePSPDoesNotKnowIsReported(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatewaysim.Config{PendingAfter: time.Hour})
	p := e.stuck()
	e.charge(p, "tok_pending")
	e.pass(func(c *reconcile.Config) { c.Quiet, c.PendingAfter = time.Hour, time.Hour })
	e.exec(`UPDATE payments SET charge_id = 'ch_gone'`)
	rep := e.pass(func(c *reconcile.Config) { c.Quiet = time.Hour })
	if len(rep.Findings) != 1 || rep.Findings[0].Kind != reconcile.MissingThere || rep.ExitCode() != reconcile.ExitNeedsPerson {
		t.Errorf("exit %d, findings %+v", rep.ExitCode(), rep.Findings)
	}
}

// eventually asks until the answer is yes, with a bound.
func eventually(t *testing.T, ask func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	bound := time.NewTimer(20 * time.Second)
	defer bound.Stop()
	for !ask() {
		select {
		case <-tick.C:
		case <-bound.C:
			t.Fatal("it did not come about in 20 s")
		}
	}
}
