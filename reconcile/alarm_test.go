package reconcile_test

import (
	"context"
	"sync"
	"testing"
	"time"

	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/internal/mysql"
	"chargeonce/internal/payment"
	"chargeonce/internal/psp"
	"chargeonce/reconcile"
)

// skewed is a PSP whose clock is off: ahead of ours when by is positive.
type skewed struct {
	reconcile.PSP
	by time.Duration
}

func (s skewed) Statement(ctx context.Context, createdAfter time.Time, cursor string, limit int) (psp.Page, error) {
	if !createdAfter.IsZero() {
		createdAfter = createdAfter.Add(-s.by)
	}
	page, err := s.PSP.Statement(ctx, createdAfter, cursor, limit)
	for i := range page.Charges {
		page.Charges[i].CreatedAt = page.Charges[i].CreatedAt.Add(s.by)
	}
	return page, err
}

func (s skewed) Get(ctx context.Context, chargeID string) (psp.Charge, error) {
	c, err := s.PSP.Get(ctx, chargeID)
	c.CreatedAt = c.CreatedAt.Add(s.by)
	return c, err
}

// Charges whose request is still under way and whose webhook is late, clocks that differ by seconds, and two processes at once:
// nobody is alarmed, and in the end every charge has its payment.
func TestNoFalseAlarm(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		skew time.Duration
	}{
		{"webhooks are late, and two processes run at once", 0},
		{"the PSP's clock is 2 s ahead", 2 * time.Second},
		{"the PSP's clock is 5 s behind", -5 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, gatewaysim.Config{})
			var reconcilers [2]*reconcile.Reconciler
			for i := range reconcilers {
				reconcilers[i] = e.reconciler(func(c *reconcile.Config) {
					c.PSP, c.PageSize, c.Batch, c.Grace = skewed{e.own, tt.skew}, 3, 3, time.Hour // so that the stuck keys stay what they are
				})
			}
			var charges []psp.Charge
			passes := func() {
				e.nextMillisecond()
				var all sync.WaitGroup
				for _, r := range reconcilers {
					all.Go(func() {
						if rep, err := r.Pass(t.Context()); err != nil || rep.ExitCode() != 0 {
							t.Errorf("exit %d, %v: %+v", rep.ExitCode(), err, rep.Findings)
						}
					})
				}
				all.Wait()
			}
			for range 3 { // each time behind the mark that the last passes have set
				for i := range 5 {
					c := *e.charge(e.stuck(), "tok_visa").Charge
					charges = append(charges, c)
					if i%2 == 0 {
						e.deliver(c)
					}
				}
				passes()
			}
			eventually(t, func() bool {
				passes()
				return e.read(`SELECT COUNT(*) FROM payments`) == "15"
			})
			for _, c := range charges { // the webhooks, late
				e.deliver(c)
			}
			passes()
			if got := e.read(`SELECT CONCAT_WS(' ', COUNT(*), COUNT(DISTINCT charge_id), MIN(status), MAX(status)) FROM payments`); got != "15 15 succeeded succeeded" {
				t.Errorf("payments: %s", got)
			}
		})
	}
}

// deliver applies what the charge's webhook says.
func (e *env) deliver(c psp.Charge) {
	e.t.Helper()
	flow := payment.NewFlow(e.db, e.own, renderer{}, payment.Timing{}, quiet())
	err := mysql.WithTx(e.t.Context(), e.db, func(tx mysql.Querier) error {
		_, err := flow.Apply(e.t.Context(), tx, c)
		return err
	})
	if err != nil {
		e.t.Error(err)
	}
}
