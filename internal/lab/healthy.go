package lab

import (
	"context"
	"fmt"
	"time"

	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/internal/psp"
)

var healthySlowExperiment = Experiment{
	Name:  "healthy-slow",
	Title: "A PSP that is slow and well (p50 600 ms, p99 900 ms) under the default settings",
	Shows: `A breaker that counts slow calls must not take a slow PSP for a sick one. The mark stands above the p99, and it
takes five slow calls in a row, or half of twenty, to open: with one call in six hundred past the mark, neither happens.`,
	Proof: true,
	Ours:  true,
	Bound: 2 * time.Minute,
	Run:   runHealthySlow,
}

type healthyPlan struct{ requests, perSecond int }

// healthyLatency has its p50 at 600 ms and its p99 at 900 ms: sigma = ln(900/600) / 2.3263 = 0.1743, which puts the p99.9 at
// 600 ms · exp(3.0902 · sigma).
var healthyLatency = gatewaysim.Lognormal(600*time.Millisecond, 1028*time.Millisecond)

func runHealthySlow(ctx context.Context, env Env, o Options) (r Report, err error) {
	plan := pick(o, healthyPlan{requests: 1200, perSecond: 20}, healthyPlan{requests: 60, perSecond: 20})
	const slowMark = time.Second // the default
	err = env.withPSP(ctx, func(s *site) error {
		c, seen, err := s.pspClient(psp.Config{})
		if err != nil {
			return err
		}
		defer c.Close()
		if err := s.psp.fresh(ctx, gatewaysim.Faults{Seed: o.Seed, Latency: healthyLatency}); err != nil {
			return err
		}
		seen.start(time.Now())
		l, err := charge(ctx, c, "healthy", plan.requests, everyOf(plan.perSecond), 10*time.Second)
		if err != nil {
			return err
		}
		stats, err := s.psp.settled(ctx)
		if err != nil {
			return err
		}
		all := l.times(0, time.Hour)
		slow := l.count(func(a asked) bool { return a.took > slowMark })
		t := Table{Columns: []string{"charges asked for", "p50", "p99", "slowest", "past the slow mark (1 s)", "succeeded", "breaker"}}
		t.add(fmt.Sprint(plan.requests), ms(quantile(all, .5)), ms(quantile(all, .99)), ms(quantile(all, 1)), fmt.Sprint(slow),
			fmt.Sprint(l.count(succeeded)), trace(seen.list()))
		r.Tables = append(r.Tables, t)
		r.Notes = append(r.Notes, fmt.Sprintf("The load generator was late by at most %s.", ms(l.late)))
		r.equal("charges at the PSP, one for each that succeeded", l.count(succeeded), stats.Charges)
		timedAtMost(&r, "changes of the breaker's state", 0, len(seen.list()))
		return nil
	})
	return r, err
}
