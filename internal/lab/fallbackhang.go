package lab

import (
	"context"
	"errors"
	"fmt"
	"time"

	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/internal/psp"
)

// pageWay is one way for a page to depend on something, and what its visitors saw.
type pageWay struct {
	name              string
	fallback, breaker bool

	visits []visited
	calls  int64 // that reached the dependency
}

// hanging has visitors come while the dependency never answers.
func (n fallbackNumbers) hanging(ctx context.Context, s *site, charge string, r *Report) error {
	ways := []*pageWay{
		{name: "time-out"},
		{name: "time-out, fallback", fallback: true},
		{name: "time-out, fallback, breaker", fallback: true, breaker: true},
	}
	for _, w := range ways {
		if err := n.visits(ctx, s, charge, w); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	t := Table{Title: fmt.Sprintf("The dependency hangs; its time-out is %s; %d visitors, one after another", ms(n.TimeOut), n.Visitors),
		Columns: []string{"the page has", "pages shown", "p50", "at most", "calls that reach the dependency"}}
	p := Plot{Title: "How long each visitor waits while the dependency hangs", X: "visitor", Y: "milliseconds"}
	for _, w := range ways {
		var took []time.Duration
		line := Series{Name: w.name}
		for i, v := range w.visits {
			took = append(took, v.took)
			line.X, line.Y = append(line.X, float64(i+1)), append(line.Y, float64(v.took.Microseconds())/1000)
		}
		t.add(w.name, fmt.Sprintf("%d of %d", w.pages(), len(w.visits)), ms(quantile(took, .5)), ms(quantile(took, 1)), fmt.Sprint(w.calls))
		p.Series = append(p.Series, line)
	}
	r.Tables, r.Plots = append(r.Tables, t), append(r.Plots, p)

	alone, slow, ours := ways[0], ways[1], ways[2]
	r.equal(alone.name+": pages shown", 0, alone.pages())
	r.equal(slow.name+": pages shown", int64(n.Visitors), slow.pages())
	r.equal(ours.name+": pages shown", int64(n.Visitors), ours.pages())
	r.atMost(ours.name+": calls that reach the dependency", fallbackFailures, ours.calls)
	r.atMost(ours.name+": calls that reach it, fewer than without a breaker", slow.calls-1, ours.calls)
	return nil
}

// visits has the visitors come, with a client and a breaker of their own.
func (n fallbackNumbers) visits(ctx context.Context, s *site, charge string, w *pageWay) (err error) {
	c, _, err := s.pspClient(psp.Config{
		Name: "widget", MaxAttempts: 1, AttemptTimeout: n.TimeOut, BreakerOff: !w.breaker, BreakerFailuresInRow: fallbackFailures,
		OpenFor: time.Minute, // longer than the visitors come
	})
	if err != nil {
		return err
	}
	defer c.Close()
	warm(ctx, c)
	page, err := serveOrderPage(&orderPage{psp: c, charge: charge, fallback: w.fallback})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, page.close()) }()
	if err := s.psp.fresh(ctx, gatewaysim.Faults{Rules: []gatewaysim.Rule{{Fault: gatewaysim.Hang, Match: onReceipts()}}}); err != nil {
		return err
	}
	for range n.Visitors {
		v, err := page.visit(ctx)
		if err != nil {
			return err
		}
		w.visits = append(w.visits, v)
	}
	stats, err := s.psp.settled(ctx)
	w.calls = receipts(stats)
	return err
}

// pages counts the visits that were answered with the page.
func (w *pageWay) pages() (n int64) {
	for _, v := range w.visits {
		if v.answered() {
			n++
		}
	}
	return n
}
