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

// Run makes the experiments one after another and writes their reports. It returns [ErrMissed] when a bound was missed (at
// small size: one that does not depend on time), and joins to it the errors of experiments that could not be made.
func Run(ctx context.Context, w io.Writer, env Env, todo []Experiment, o Options) error {
	began := time.Now()
	p := &printer{w: w}
	var failed []error
	missed := 0
	for _, e := range todo {
		p.headline(e)
		start := time.Now()
		r, err := runOne(ctx, e, env, o)
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted: %w", ctx.Err())
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", e.Name, err))
			p.say("could not be made: %v\n", err)
			continue
		}
		p.report(r, o)
		p.say("took %s\n", seconds(time.Since(start)))
		missed += len(r.Missed(!o.Small))
	}
	p.say("\nExperiments: %d, in %s. Bounds missed: %d. Could not be made: %d.\n",
		len(todo), seconds(time.Since(began)), missed, len(failed))
	if missed > 0 {
		failed = append(failed, ErrMissed)
	}
	return errors.Join(append(failed, p.err)...)
}

func runOne(ctx context.Context, e Experiment, env Env, o Options) (Report, error) {
	ctx, cancel := context.WithTimeout(ctx, e.Bound)
	defer cancel()
	return e.Run(ctx, env, o)
}

// List writes the experiments' names and titles.
func List(w io.Writer) error {
	p := &printer{w: w}
	for _, e := range All() {
		p.say("%-14s  %s\n", e.Name, e.Title)
	}
	return p.err
}
