package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"chargeonce/internal/psp"
)

// downAfter is how many calls in a row without an answer end a pass's dealings with the PSP.
const downAfter = 5

// errNeverCharges: a request to charge came from reconciliation.
var errNeverCharges = errors.New("reconciliation never charges")

// gateway is the PSP as a pass sees it: it never charges, it is not asked faster than the rate allows, and it is noticed when it
// is down, so that a backlog of keys does not hammer it.
type gateway struct {
	psp     PSP
	limiter *rate.Limiter

	silent atomic.Int32 // calls in a row without an answer
	gone   atomic.Bool
}

// reset forgets what an earlier pass noticed.
func (g *gateway) reset() {
	g.silent.Store(0)
	g.gone.Store(false)
}

// down reports whether the PSP was found unreachable in this pass.
func (g *gateway) down() bool { return g.gone.Load() }

// Charge completes payment.PSP. It refuses: what is not known is asked for, and what was never tried is not tried here.
func (g *gateway) Charge(context.Context, psp.ChargeRequest) psp.Result {
	return psp.Result{Kind: psp.NotSent, NotSent: psp.InvalidRequest, Err: errNeverCharges}
}

func (g *gateway) LookUp(ctx context.Context, key string, want psp.Expect) psp.Result {
	return g.byKey(ctx, key, want, g.psp.LookUp)
}

func (g *gateway) Cancel(ctx context.Context, key string, want psp.Expect) psp.Result {
	return g.byKey(ctx, key, want, g.psp.Cancel)
}

func (g *gateway) byKey(ctx context.Context, key string, want psp.Expect, call func(context.Context, string, psp.Expect) psp.Result) psp.Result {
	if err := g.limiter.Wait(ctx); err != nil {
		return psp.Result{Kind: psp.NotSent, NotSent: psp.DeadlineTooLow, Err: err}
	}
	res := call(ctx, key, want)
	switch {
	case res.Kind == psp.NotSent:
		g.unanswered(res.NotSent)
	case res.Kind == psp.Unknown && !errors.Is(res.Err, context.Canceled):
		g.unanswered("")
	default:
		g.silent.Store(0)
	}
	return res
}

func (g *gateway) Get(ctx context.Context, chargeID string) (psp.Charge, error) {
	if err := g.limiter.Wait(ctx); err != nil {
		return psp.Charge{}, fmt.Errorf("wait for the PSP's rate: %w", err)
	}
	c, err := g.psp.Get(ctx, chargeID)
	g.noteRead(err)
	return c, err
}

func (g *gateway) Statement(ctx context.Context, createdAfter time.Time, cursor string, limit int) (psp.Page, error) {
	if err := g.limiter.Wait(ctx); err != nil {
		return psp.Page{}, fmt.Errorf("wait for the PSP's rate: %w", err)
	}
	page, err := g.psp.Statement(ctx, createdAfter, cursor, limit)
	g.noteRead(err)
	return page, err
}

func (g *gateway) noteRead(err error) {
	var silent *psp.UnavailableError
	switch {
	case errors.As(err, &silent) && !errors.Is(err, context.Canceled):
		g.unanswered(silent.NotSent)
	case err == nil || errors.Is(err, psp.ErrNoSuchCharge):
		g.silent.Store(0)
	}
}

// unanswered notes a call that the PSP did not answer, and why it was not sent, if it was not.
func (g *gateway) unanswered(why psp.NotSentReason) {
	switch why {
	case psp.BreakerOpen:
		g.gone.Store(true)
	case psp.ConnectFailed, "":
		if g.silent.Add(1) >= downAfter {
			g.gone.Store(true)
		}
	case psp.BulkheadFull, psp.DeadlineTooLow, psp.CallerLeft, psp.InvalidRequest:
	}
}
