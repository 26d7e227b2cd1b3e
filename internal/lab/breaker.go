package lab

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/internal/psp"
)

var breakerExperiment = with(Experiment{
	Name:  "breaker",
	Title: "A PSP that hangs for 4 s under 50 requests/s: no breaker, one that counts time-outs, and ours",
	Shows: `A hung PSP never answers, so each call holds its caller until the time-out. A breaker that counts results learns
of the hang only from the first time-outs, one second late; by then 50 calls wait. Ours counts a call as failed when it passes
the slow mark, while it still runs, so it opens half a second earlier, and its probe is judged half a second earlier too:
fewer wait, fewer reach the PSP, and it recovers sooner.`,
	Proof: true,
	Bound: 2 * time.Minute,
	Code:  []string{"internal/psp/breaker.go", "internal/psp/attempt.go"},
}, breakerFull, breakerSmall, runBreaker)

// breakerNumbers are the load and the hang. The full size is the document's.
type breakerNumbers struct {
	Requests  int           `help:"Requests." max:"10000"`
	PerSecond int           `help:"Requests per second."`
	HangAfter time.Duration `help:"When the PSP begins to hang."`
	HangFor   time.Duration `help:"How long it hangs."`
	Timeout   time.Duration `help:"The time-out of a request."`
	Slow      time.Duration `help:"The mark past which ours counts a request under way as failed."`
	Open      time.Duration `help:"How long the breaker stays open before it lets a probe through."`
	Latency   time.Duration `help:"How long the PSP takes when it is well."`
}

var (
	breakerFull = breakerNumbers{Requests: 500, PerSecond: 50, HangAfter: 2 * time.Second, HangFor: 4 * time.Second,
		Timeout: time.Second, Slow: 500 * time.Millisecond, Open: time.Second, Latency: 5 * time.Millisecond}
	breakerSmall = breakerNumbers{Requests: 150, PerSecond: 75, HangAfter: 300 * time.Millisecond, HangFor: time.Second,
		Timeout: 300 * time.Millisecond, Slow: 100 * time.Millisecond, Open: 200 * time.Millisecond, Latency: 5 * time.Millisecond}
)

// The service's promises on time, for the numbers of the document.
const (
	breakerMaxWaiting    = 33
	breakerMaxHung       = 34
	breakerMaxP50        = 5 * time.Millisecond
	breakerRecoverMargin = 50 * time.Millisecond
)

// breakerWays are the ways to call.
var breakerWays = [3]string{"direct", "breaker, time-outs", "breaker, slow mark"}

// breakerRun is what came of one way to call.
type breakerRun struct {
	load
	arrived, hung int64 // calls at the PSP, and those of them that hung
	changes       []change
	openFor       time.Duration
}

func runBreaker(ctx context.Context, env Env, o Options, n breakerNumbers) (Report, error) {
	base := psp.Config{MaxAttempts: 1, AttemptTimeout: n.Timeout, OpenFor: n.Open}
	direct, timeouts, ours := base, base, base
	direct.BreakerOff, direct.Slots = true, n.Requests
	timeouts.SlowAfter = n.Timeout
	ours.SlowAfter = n.Slow

	// Side by side, each with a PSP of its own.
	var runs [3]breakerRun
	var errs [3]error
	var all sync.WaitGroup
	for i, cfg := range []psp.Config{direct, timeouts, ours} {
		all.Go(func() {
			errs[i] = env.withPSP(ctx, func(s *site) (err error) {
				runs[i], err = n.run(ctx, s, cfg, o.Seed)
				return err
			})
		})
	}
	all.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return Report{}, err
	}
	return n.report(runs[0], runs[1], runs[2]), nil
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

func (n breakerNumbers) run(ctx context.Context, s *site, cfg psp.Config, seed uint64) (r breakerRun, err error) {
	c, seen, err := s.pspClient(cfg)
	if err != nil {
		return r, err
	}
	defer c.Close()
	warm(ctx, c)
	err = s.psp.fresh(ctx, gatewaysim.Faults{Seed: seed, Latency: gatewaysim.Fixed(n.Latency), Rules: []gatewaysim.Rule{{
		Fault: gatewaysim.Hang, Match: onCharges(),
		Window: gatewaysim.Window{After: gatewaysim.Duration(n.HangAfter), For: gatewaysim.Duration(n.HangFor)},
	}}})
	if err != nil {
		return r, err
	}
	seen.start(time.Now())
	if r.load, err = charge(ctx, c, "breaker", n.Requests, everyOf(n.PerSecond), n.Timeout+time.Second); err != nil {
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

func (n breakerNumbers) report(direct, timeouts, ours breakerRun) (r Report) {
	hangEnd := n.HangAfter + n.HangFor
	t := Table{Columns: []string{"way to call", "", "p50 in the hang", "p99", "calls", "in the hang", "waiting at most",
		"first success after it"}}
	t.add(breakerWays[0], "document", "1001 ms", "1003 ms", "500", "", "51", "0.00–0.02 s")
	n.row(&t, "", "here", direct)
	t.add(breakerWays[1], "document", "0 ms", "1002 ms", "300–301", "52–53", "51", "1.10–1.14 s")
	n.row(&t, "", "here", timeouts)
	n.row(&t, breakerWays[2], "here", ours)
	r.Tables = append(r.Tables, t)
	r.Plots = append(r.Plots, n.plot(direct, timeouts, ours))
	r.Notes = append(r.Notes,
		"The document's breaker opened anew with each late time-out, and so stayed open longer than the one here.",
		fmt.Sprintf("Breaker, time-outs (open for %s): %s", ms(timeouts.openFor), trace(timeouts.changes)),
		fmt.Sprintf("Breaker, slow mark (open for %s): %s", ms(ours.openFor), trace(ours.changes)),
		fmt.Sprintf("The load generator was late by at most %s.", ms(max(direct.late, timeouts.late, ours.late))))

	requests := int64(n.Requests)
	r.equal("direct: calls at the PSP", requests, direct.arrived)
	r.equal("ours: calls at the PSP that the client knows of", ours.arrived, ours.sent())
	r.equal("ours: calls sent and refused, together", requests, ours.sent()+ours.count(refused))
	r.atMost("ours: calls at the PSP, fewer than without", requests-1, ours.arrived)
	r.atMost("ours: calls that hang, fewer than with time-outs alone", timeouts.hung-1, ours.hung)
	timedAtMost(&r, "ours: waiting at most", breakerMaxWaiting, int64(ours.waiting))
	timedAtMost(&r, "ours: calls during the hang", breakerMaxHung, ours.hung)
	timedAtMost(&r, "ours: p50 during the hang", breakerMaxP50, quantile(ours.times(n.HangAfter, hangEnd), .5))
	recovery, ok := ours.firstSuccess(hangEnd)
	if !ok {
		recovery = math.MaxInt64 // never, within the load
	}
	timedAtMost(&r, "ours: recovery, within slow mark + open time + 50 ms", n.Slow+ours.openFor+breakerRecoverMargin, recovery)
	return r
}

func (n breakerNumbers) row(t *Table, way, who string, b breakerRun) {
	hangEnd := n.HangAfter + n.HangFor
	during := b.times(n.HangAfter, hangEnd)
	first := "never"
	if d, ok := b.firstSuccess(hangEnd); ok {
		first = seconds(d)
	}
	t.add(way, who, ms(quantile(during, .5)), ms(quantile(during, .99)), fmt.Sprint(b.arrived), fmt.Sprint(b.hung),
		fmt.Sprint(b.waiting), first)
}

// plot draws how many wait, over the time of the load.
func (n breakerNumbers) plot(runs ...breakerRun) Plot {
	p := Plot{Title: "Callers that wait for the PSP", X: "seconds", Y: "callers"}
	step := n.HangFor / 80
	end := time.Duration(n.Requests)*everyOf(n.PerSecond) + n.Timeout
	for i, b := range runs {
		s := Series{Name: breakerWays[i]}
		for at := time.Duration(0); at <= end; at += step {
			waiting := b.count(func(a asked) bool { return a.at <= at && at < a.at+a.took })
			s.X, s.Y = append(s.X, at.Seconds()), append(s.Y, float64(waiting))
		}
		p.Series = append(p.Series, s)
	}
	return p
}
