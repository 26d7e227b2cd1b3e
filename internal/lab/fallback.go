package lab

import (
	"context"
	"errors"
	"fmt"
	"time"

	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/internal/psp"
)

var fallbackExperiment = with(Experiment{
	Name:  "fallback",
	Title: "A page with a widget from a dependency that fails, and then one that hangs: what the page's visitors see",
	Shows: `An order's page shows our own record of the payment, which it cannot do without, and a widget with what the PSP says of the
charge, which it can: that dependency is not critical. While it fails, the page hides the widget and answers all the same. After
three failures in a row the breaker opens and the dependency is not even asked: its count of calls stands still, and the fallback
costs no time. After the cool-down one probe asks; the dependency is still down, so the breaker opens again; the next probe finds it
well, the breaker closes, and the widget is back. A dependency that hangs shows why it takes all three: without a fallback the page
fails with its dependency; with one, but no breaker, every visitor waits for the time-out first; with both, only the first few do.`,
	Code:  []string{"internal/lab/fallbackpage.go", "internal/psp/breaker.go", "internal/psp/reads.go", "internal/psp/attempt.go"},
	Bound: time.Minute,
}, fallbackNumbers{OpenFor: time.Second, Visitors: 6, TimeOut: 150 * time.Millisecond},
	fallbackNumbers{OpenFor: 500 * time.Millisecond, Visitors: 5, TimeOut: 80 * time.Millisecond}, runFallback)

// fallbackFailures is how many failures in a row open the breaker, in the document too.
const fallbackFailures = 3

// fallbackNumbers are the document's, at full size, as far as it has them.
type fallbackNumbers struct {
	OpenFor  time.Duration `help:"How long it stays open, give or take a tenth."`
	Visitors int           `help:"Visitors of the page while the dependency hangs, one after another."`
	TimeOut  time.Duration `help:"How long the page waits for a dependency that hangs."`
}

// fallbackStep is a visit in the document's trace: when, what the dependency is like, and what was seen.
type fallbackStep struct {
	at, dependency, document string
	waits, recovers          bool // before it: the breaker has been open for its time; the dependency is well again
}

const (
	widgetHidden = "widget hidden"
	widgetShown  = "widget shown"
)

func fallbackSteps() []fallbackStep {
	return []fallbackStep{
		{at: "0 ms", dependency: "down", document: widgetHidden + ", closed, calls: 1"},
		{at: "0 ms", dependency: "down", document: widgetHidden + ", closed, calls: 2"},
		{at: "0 ms", dependency: "down", document: widgetHidden + ", open, calls: 3"},
		{at: "0 ms", dependency: "down", document: widgetHidden + ", open, calls: 3"},
		{at: "0 ms", dependency: "down", document: widgetHidden + ", open, calls: 3"},
		{at: "1200 ms", dependency: "still down: a probe", document: widgetHidden + ", open, calls: 4", waits: true},
		{at: "2300 ms", dependency: "recovered: a probe", document: widgetShown + ", closed, calls: 5", waits: true, recovers: true},
		{at: "2300 ms", dependency: "well", document: widgetShown + ", closed, calls: 6"},
	}
}

// onReceipts picks the requests for one charge.
func onReceipts() gatewaysim.Match { return gatewaysim.Match{Method: "GET", Path: chargesPath + "/"} }

const receiptRoute = "GET /charges/{id}"

// receipts counts the requests for one charge that have reached the PSP, whatever came of them.
func receipts(s gatewaysim.Stats) (n int64) {
	for _, count := range s.Requests[receiptRoute] {
		n += count
	}
	return n
}

func runFallback(ctx context.Context, env Env, _ Options, n fallbackNumbers) (r Report, err error) {
	err = env.withPSP(ctx, func(s *site) error {
		c, _, err := s.pspClient(psp.Config{MaxAttempts: 1})
		if err != nil {
			return err
		}
		defer c.Close()
		made := c.Charge(ctx, chargeRequest("fallback"))
		if made.Kind != psp.Succeeded {
			return fmt.Errorf("the charge that the page shows: %s: %w", made.Kind, made.Err)
		}
		if err := n.failing(ctx, s, made.Charge.ID, &r); err != nil {
			return err
		}
		return n.hanging(ctx, s, made.Charge.ID, &r)
	})
	return r, err
}

// failing is the document's trace: the page in front of a dependency that fails, and recovers.
func (n fallbackNumbers) failing(ctx context.Context, s *site, charge string, r *Report) (err error) {
	c, seen, err := s.pspClient(psp.Config{Name: "widget", MaxAttempts: 1, BreakerFailuresInRow: fallbackFailures, OpenFor: n.OpenFor})
	if err != nil {
		return err
	}
	defer c.Close()
	page, err := serveOrderPage(&orderPage{psp: c, charge: charge, fallback: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, page.close()) }()
	down := gatewaysim.Faults{Rules: []gatewaysim.Rule{{Fault: gatewaysim.ErrorAnswer, Match: onReceipts()}}}
	if err := s.psp.fresh(ctx, down); err != nil {
		return err
	}
	t := Table{Title: "A dependency that is not critical fails, and recovers",
		Columns: []string{"the dependency is", "document", "", "here", "", "the page"}}
	began := time.Now()
	var pages int64
	for i, step := range fallbackSteps() {
		if err := step.prepare(ctx, s, c.OpenFor()+n.OpenFor/10); err != nil {
			return err
		}
		at := time.Since(began)
		v, err := page.visit(ctx)
		if err != nil {
			return err
		}
		stats, err := s.psp.settled(ctx)
		if err != nil {
			return err
		}
		got := fmt.Sprintf("%s, %s, calls: %d", v.widget, stateOf(seen), receipts(stats))
		t.add(step.dependency, step.at, step.document, ms(at), got, v.String())
		r.same(fmt.Sprintf("visit %d, the dependency is %s", i+1, step.dependency), step.document, got)
		if v.answered() {
			pages++
		}
	}
	r.equal("visits that were answered with the page, while the dependency fails", int64(len(t.Rows)), pages)
	r.Tables = append(r.Tables, t)
	return nil
}

// prepare brings the dependency and the breaker to where the step begins. open is longer than the breaker stays open.
func (f fallbackStep) prepare(ctx context.Context, s *site, open time.Duration) error {
	if f.waits {
		if err := waitFor(ctx, open); err != nil {
			return err
		}
	}
	if f.recovers {
		return s.psp.setFaults(ctx, gatewaysim.Faults{})
	}
	return nil
}

// stateOf is the breaker's state after its last change.
func stateOf(seen *changes) string {
	all := seen.list()
	if len(all) == 0 {
		return "closed"
	}
	return all[len(all)-1].to
}
