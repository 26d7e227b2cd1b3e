package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Options say what a run is made of, and where its report goes.
type Options struct {
	// ChargeOnce and GatewaySim are the binaries.
	ChargeOnce, GatewaySim string
	// DSN reaches a MySQL server on which a database may be made; empty means that of the environment, see rig.FindMySQL.
	DSN  string
	Plan Plan
	// Out gets the tables, row by row. Bar is a terminal for the progress bar; nil: none.
	Out, Bar io.Writer
	// ProfileDir, if set, gets profiles of the server with ProfileAt in flight. It is made when it is missing.
	ProfileDir string
	ProfileAt  int
}

// Run measures what the plan says and returns the report. Its errors are [ErrWrong], and those of what could not be measured: never
// that something was slow. On an error the report holds what was measured until then.
func Run(ctx context.Context, o Options) (report Report, err error) {
	if o.ProfileDir != "" {
		if err := os.MkdirAll(o.ProfileDir, 0o755); err != nil {
			return Report{}, fmt.Errorf("profiles: %w", err)
		}
	}
	s, err := newSite(ctx, o)
	if err != nil {
		return Report{}, err
	}
	r := &run{site: s, plan: o.Plan, bar: newBar(o.Bar, o.Plan.steps()), report: &report}
	r.print = &printer{w: o.Out, bar: r.bar}
	defer func() {
		r.bar.end()
		keep := err != nil && ctx.Err() == nil
		if keep {
			err = fmt.Errorf("%w; the logs are in %s", err, s.dir)
		}
		err = errors.Join(err, s.close(context.WithoutCancel(ctx), keep))
	}()
	report.Machine, report.MySQL, report.Flags = thisMachine(), s.mysql, serveFlags(o.Plan.mostInFlight(), true)
	r.print.head(report, o.Plan)
	for _, c := range o.Plan.Conditions {
		if err := r.condition(ctx, c); err != nil {
			return report, err
		}
	}
	for _, keys := range o.Plan.Keys {
		if err := r.stock(ctx, keys); err != nil {
			return report, err
		}
	}
	report.Aims = aims(report)
	r.print.aims(report.Aims)
	return report, r.print.err
}

// run is a run under way.
type run struct {
	site   *site
	plan   Plan
	bar    *bar
	print  *printer
	report *Report
}

// target is a form that has been started.
type target interface {
	buy(ctx context.Context, worker int) error
	processes() processes
	refusals() map[string]int64
	check(ctx context.Context) (books, error)
	close(ctx context.Context) error
}

func (s *site) start(ctx context.Context, f Form, c Condition, n int) (target, error) {
	if f.Face == BareSQL {
		return s.newCeiling(ctx, n)
	}
	return s.newService(ctx, f, c, n)
}

func joinClose(ctx context.Context, err error, t target) error {
	return errors.Join(err, t.close(context.WithoutCancel(ctx)))
}

func (r *run) condition(ctx context.Context, c Condition) error {
	if err := r.pspAlone(ctx, c); err != nil {
		return err
	}
	r.print.condition(c)
	for _, n := range r.plan.InFlight {
		ceiling := 0.0
		for _, f := range r.plan.Forms {
			r.bar.step(fmt.Sprintf("%s, %d in flight, %s", f, n, c))
			got, err := r.measure(ctx, f, c, n)
			if err != nil {
				return fmt.Errorf("%s, %d in flight, %s: %w", f, n, c, err)
			}
			if f.Face == BareSQL {
				ceiling = got.Closed.PerSecond
			}
			if ceiling > 0 {
				got.Ratio = got.Closed.PerSecond / ceiling
			}
			r.report.Results = append(r.report.Results, got)
			r.print.result(got)
		}
		r.print.gap()
	}
	return nil
}

func where(f Form, c Condition, n int) Where {
	return Where{Face: f.Face, Coalesce: f.Coalesce, InFlight: n, PSPMillis: millis(c.PSPLatency), Webhooks: c.Webhooks}
}

// measure starts a form on empty tables, measures its throughput and then its latency, and checks its books.
func (r *run) measure(ctx context.Context, f Form, c Condition, n int) (got Result, err error) {
	got = Result{Where: where(f, c, n)}
	if err := r.site.empty(ctx); err != nil {
		return got, err
	}
	t, err := r.site.start(ctx, f, c, n)
	if err != nil {
		return got, err
	}
	defer func() { err = joinClose(ctx, err, t) }()

	w := ahead(r.plan.Warm, r.plan.Closed)
	profiling := r.profile(ctx, t, got.Where, w)
	s, used, err := loaded(ctx, t, n, w)
	if err = errors.Join(err, profiling()); err != nil {
		return got, err
	}
	got.Closed, got.CPU = rateOf(s, w), cpuPerPayment(used, s.done)
	if v, ok := t.(*service); ok {
		if got.PeakBytes, err = peakMemory(v.server.PID()); err != nil {
			return got, err
		}
	}
	if got.OpenRate = openShare * got.Closed.PerSecond; got.OpenRate > 0 {
		s, err := openLoop(ctx, n, got.OpenRate, ahead(0, r.plan.Open), t.buy)
		if err != nil {
			return got, err
		}
		got.Open = quantiles(s)
	}
	got.Refused = t.refusals()
	got.Books, err = t.check(ctx)
	return got, err
}

// ahead is the window that begins after a while.
func ahead(after, length time.Duration) window {
	from := time.Now().Add(after)
	return window{from: from, to: from.Add(length)}
}

// loaded runs the closed loop and measures meanwhile what the processes use.
func loaded(ctx context.Context, t target, n int, w window) (s sample, used map[string]time.Duration, err error) {
	all := t.processes()
	all[procLoad] = os.Getpid()
	var usedErr error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		used, usedErr = all.during(ctx, w)
	}()
	s, err = closedLoop(ctx, n, w, t.buy)
	<-ended // it is as long as the window at the most
	return s, used, errors.Join(err, usedErr)
}

// pspAlone measures the PSP of a condition by itself, once for each latency.
func (r *run) pspAlone(ctx context.Context, c Condition) (err error) {
	for _, known := range r.report.PSPAlone {
		if known.PSPMillis == millis(c.PSPLatency) {
			return nil
		}
	}
	v, err := r.site.newService(ctx, Form{Face: REST}, Condition{PSPLatency: c.PSPLatency}, 1)
	if err != nil {
		return err
	}
	defer func() { err = joinClose(ctx, err, v) }()
	s, err := v.pspAlone(ctx, ahead(0, aloneFor))
	r.report.PSPAlone = append(r.report.PSPAlone, PSPAlone{millis(c.PSPLatency), quantiles(s)})
	return err
}

// stock measures every form on tables that are full.
func (r *run) stock(ctx context.Context, keys int) error {
	r.bar.step(fmt.Sprintf("loading %d keys", keys))
	st, err := r.site.load(ctx, keys, r.bar.part)
	if err != nil {
		return err
	}
	r.print.stockHead(keys, r.plan.KeysInFlight)
	ceiling := 0.0
	for _, f := range r.plan.Forms {
		r.bar.step(fmt.Sprintf("%s, %d keys in the table", f, keys))
		got, err := r.measureStock(ctx, f, keys, st)
		if err != nil {
			return fmt.Errorf("%s, %d keys in the table: %w", f, keys, err)
		}
		if f.Face == BareSQL {
			ceiling = got.Payments.PerSecond
		}
		if ceiling > 0 {
			got.Ratio = got.Payments.PerSecond / ceiling
		}
		r.report.Stocks = append(r.report.Stocks, got)
		r.print.stock(got)
	}
	r.print.gap()
	return nil
}

func (r *run) measureStock(ctx context.Context, f Form, keys int, st stock) (got Stock, err error) {
	n := r.plan.KeysInFlight
	got = Stock{Where: where(f, Condition{}, n), Keys: keys}
	t, err := r.site.start(ctx, f, Condition{}, n)
	if err != nil {
		return got, err
	}
	defer func() { err = joinClose(ctx, err, t) }()
	type part struct {
		into *Rate
		do   operation
	}
	parts := []part{{&got.Payments, t.buy}}
	if v, ok := t.(*service); ok {
		parts = append(parts, part{&got.Replays, v.replay(st)}, part{&got.Conflict, v.collide(st)})
	}
	for _, p := range parts {
		w := ahead(r.plan.Warm, r.plan.Closed)
		s, err := closedLoop(ctx, n, w, p.do)
		if err != nil {
			return got, err
		}
		*p.into = rateOf(s, w)
	}
	got.Refused = t.refusals()
	got.Books, err = t.check(ctx)
	return got, err
}
