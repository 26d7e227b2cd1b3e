package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// ErrMissed: an experiment did not keep a bound.
var ErrMissed = errors.New("not every bound was kept")

// Runner makes experiments.
type Runner struct {
	// Out gets the reports.
	Out io.Writer
	// Terminal, if set, shows what is being made and for how long.
	Terminal io.Writer
	Env      Env
	Options  Options
}

// Result is what came of one experiment.
type Result struct {
	Experiment Experiment
	Report     Report
	// Err says that it could not be made; Report is empty then.
	Err  error
	Took time.Duration
}

// Run makes the experiments one after another and writes their reports. It returns [ErrMissed] when a bound was missed (one on
// time only if those bind), and joins to it the errors of experiments that could not be made.
func (r Runner) Run(ctx context.Context, todo []Experiment) (results []Result, err error) {
	began := time.Now()
	p := &printer{w: r.Out}
	progress := newProgress(r.Terminal)
	defer progress.end()
	var failed []error
	missed := 0
	for i, e := range todo {
		progress.hide()
		p.headline(e)
		progress.show(fmt.Sprintf("%d/%d %s", i+1, len(todo), e.Name))
		start := time.Now()
		report, err := runOne(ctx, e, r.Env, r.Options)
		got := Result{Experiment: e, Report: report, Err: err, Took: time.Since(start)}
		progress.hide()
		if ctx.Err() != nil {
			return results, fmt.Errorf("interrupted: %w", ctx.Err())
		}
		results = append(results, got)
		if got.Err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", e.Name, got.Err))
			p.say("could not be made: %v\n", got.Err)
			continue
		}
		p.report(got.Report, r.Options)
		p.say("took %s\n", seconds(got.Took))
		missed += len(got.Report.Missed(r.Options.Timed))
	}
	p.say("\nExperiments: %d, in %s. Bounds missed: %d. Could not be made: %d.\n",
		len(todo), seconds(time.Since(began)), missed, len(failed))
	if missed > 0 {
		failed = append(failed, ErrMissed)
	}
	return results, errors.Join(append(failed, p.err)...)
}

// ownBound is how many times the bound an experiment may take whose numbers were chosen.
const ownBound = 10

func runOne(ctx context.Context, e Experiment, env Env, o Options) (Report, error) {
	bound := e.Bound
	if o.Numbers != nil {
		bound *= ownBound
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	return e.Run(ctx, env, o)
}

// List writes the experiments' names and titles, and what makes them.
func List(w io.Writer) error {
	p := &printer{w: w}
	list := func(ours bool) {
		for _, e := range All() {
			proof := ""
			if e.Proof {
				proof = "proof"
			}
			if e.Ours == ours {
				p.say("  %-14s  %-5s  %s\n", e.Name, proof, e.Title)
			}
		}
	}
	p.say("The documents' experiments: `lab run all` makes them, `lab run NAME` makes one.\n")
	list(false)
	p.say("\nThis service's own: `lab run NAME` makes them.\n")
	list(true)
	p.say("\nThose marked proof are also made by `lab proof`, and there they are held to bounds on time.\n")
	return p.err
}
