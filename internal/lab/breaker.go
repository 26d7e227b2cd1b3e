package lab

import (
	"context"
	"fmt"
	"math"
	"time"

	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/internal/psp"
)

var breakerExperiment = Experiment{
	Name:  "breaker",
	Title: "A PSP that hangs for 4 s under 50 requests/s: no breaker, one that counts time-outs, and ours",
	Shows: `A hung PSP never answers, so each call holds its caller until the time-out. A breaker that counts results learns
of the hang only from the first time-outs, one second late; by then 50 calls wait. Ours counts a call as failed when it passes
the slow mark, while it still runs, so it opens half a second earlier, and its probe is judged half a second earlier too:
fewer wait, fewer reach the PSP, and it recovers sooner.`,
	Proof: true,
	Bound: 2 * time.Minute,
	Run:   runBreaker,
}

// breakerPlan is the load and the hang. The full size is the document's.
type breakerPlan struct {
	requests, perSecond   int
	hangAfter, hangFor    time.Duration
	timeout, slow, open   time.Duration
	latency               time.Duration // of the PSP when it is well
	maxWaiting, maxHung   int64
	maxP50, recoverMargin time.Duration
}

var (
	breakerFull = breakerPlan{
		requests: 500, perSecond: 50, hangAfter: 2 * time.Second, hangFor: 4 * time.Second,
		timeout: time.Second, slow: 500 * time.Millisecond, open: time.Second, latency: 5 * time.Millisecond,
		maxWaiting: 33, maxHung: 34, maxP50: 5 * time.Millisecond, recoverMargin: 50 * time.Millisecond,
	}
	breakerSmall = breakerPlan{
		requests: 150, perSecond: 75, hangAfter: 300 * time.Millisecond, hangFor: time.Second,
		timeout: 300 * time.Millisecond, slow: 100 * time.Millisecond, open: 200 * time.Millisecond, latency: 5 * time.Millisecond,
		maxWaiting: 33, maxHung: 34, maxP50: 5 * time.Millisecond, recoverMargin: 50 * time.Millisecond,
	}
)

// breakerRun is what came of one way to call.
type breakerRun struct {
	load
	arrived, hung int64 // calls at the PSP, and those of them that hung
	changes       []change
	openFor       time.Duration
}

func runBreaker(ctx context.Context, env Env, o Options) (Report, error) {
	plan := pick(o, breakerFull, breakerSmall)
	base := psp.Config{MaxAttempts: 1, AttemptTimeout: plan.timeout, OpenFor: plan.open}
	direct, timeouts, ours := base, base, base
	direct.BreakerOff, direct.Slots = true, plan.requests
	timeouts.SlowAfter = plan.timeout
	ours.SlowAfter = plan.slow

	var runs [3]breakerRun
	err := env.withPSP(ctx, func(s *site) (err error) {
		for i, cfg := range []psp.Config{direct, timeouts, ours} {
			if runs[i], err = plan.run(ctx, s, fmt.Sprintf("way%d", i), cfg, o.Seed); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return Report{}, err
	}
	return plan.report(runs[0], runs[1], runs[2]), nil
}

// warm opens the client's connections. On a busy machine not all may be there in time; those are opened when they are needed, as
// in a server, and the figures are a little worse.
func warm(ctx context.Context, c *psp.Client) {
	for range 3 {
		if c.Warm(ctx) == nil || ctx.Err() != nil {
			return
		}
	}
}

func (plan breakerPlan) run(ctx context.Context, s *site, prefix string, cfg psp.Config, seed uint64) (r breakerRun, err error) {
	c, seen, err := s.pspClient(cfg)
	if err != nil {
		return r, err
	}
	defer c.Close()
	warm(ctx, c)
	err = s.psp.fresh(ctx, gatewaysim.Faults{Seed: seed, Latency: gatewaysim.Fixed(plan.latency), Rules: []gatewaysim.Rule{{
		Fault: gatewaysim.Hang, Match: onCharges(),
		Window: gatewaysim.Window{After: gatewaysim.Duration(plan.hangAfter), For: gatewaysim.Duration(plan.hangFor)},
	}}})
	if err != nil {
		return r, err
	}
	seen.start(time.Now())
	if r.load, err = charge(ctx, c, prefix, plan.requests, everyOf(plan.perSecond), plan.timeout+time.Second); err != nil {
		return r, err
	}
	stats, err := s.psp.settled(ctx)
	if err != nil {
		return r, err
	}
	r.arrived, r.hung = charged(stats), stats.Requests[chargeRoute][outcomeHung]
	r.changes, r.openFor = seen.list(), c.OpenFor()
	return r, nil
}

func (plan breakerPlan) report(direct, timeouts, ours breakerRun) (r Report) {
	hangEnd := plan.hangAfter + plan.hangFor
	t := Table{Columns: []string{"way to call", "", "p50 in the hang", "p99", "calls", "in the hang", "waiting at most",
		"first success after it"}}
	t.add("direct", "document", "1001 ms", "1003 ms", "500", "", "51", "0.00–0.02 s")
	plan.row(&t, "", "here", direct)
	t.add("breaker, time-outs", "document", "0 ms", "1002 ms", "300–301", "52–53", "51", "1.10–1.14 s")
	plan.row(&t, "", "here", timeouts)
	plan.row(&t, "breaker, slow mark", "here", ours)
	r.Tables = append(r.Tables, t)
	r.Notes = append(r.Notes,
		"The document's breaker opened anew with each late time-out, and so stayed open longer than the one here.",
		fmt.Sprintf("Breaker, time-outs (open for %s): %s", ms(timeouts.openFor), trace(timeouts.changes)),
		fmt.Sprintf("Breaker, slow mark (open for %s): %s", ms(ours.openFor), trace(ours.changes)),
		fmt.Sprintf("The load generator was late by at most %s.", ms(max(direct.late, timeouts.late, ours.late))))

	n := int64(plan.requests)
	r.equal("direct: calls at the PSP", n, direct.arrived)
	r.equal("ours: calls at the PSP that the client knows of", ours.arrived, ours.sent())
	r.equal("ours: calls sent and refused, together", n, ours.sent()+ours.count(refused))
	r.atMost("ours: calls at the PSP, fewer than without", n-1, ours.arrived)
	timedAtMost(&r, "ours: waiting at most", plan.maxWaiting, int64(ours.waiting))
	timedAtMost(&r, "ours: calls during the hang", plan.maxHung, ours.hung)
	timedAtMost(&r, "ours: p50 during the hang", plan.maxP50, quantile(ours.times(plan.hangAfter, hangEnd), .5))
	recovery, ok := ours.firstSuccess(hangEnd)
	if !ok {
		recovery = math.MaxInt64 // never, within the load
	}
	timedAtMost(&r, "ours: recovery, within slow mark + open time + 50 ms", plan.slow+ours.openFor+plan.recoverMargin, recovery)
	return r
}

func (plan breakerPlan) row(t *Table, way, who string, b breakerRun) {
	hangEnd := plan.hangAfter + plan.hangFor
	during := b.times(plan.hangAfter, hangEnd)
	first := "never"
	if d, ok := b.firstSuccess(hangEnd); ok {
		first = seconds(d)
	}
	t.add(way, who, ms(quantile(during, .5)), ms(quantile(during, .99)), fmt.Sprint(b.arrived), fmt.Sprint(b.hung),
		fmt.Sprint(b.waiting), first)
}
