package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"chargeonce/api/payments/v1/client"
)

// Options say what to play, and on what.
type Options struct {
	// Out gets the timelines. Color allows terminal colours in it.
	Out   io.Writer
	Color bool
	// Only is the name of the one scenario to play; empty plays all.
	Only string
	// Keep leaves the database, the logs and the PSP's file behind.
	Keep bool

	// ChargeOnce and GatewaySim are the binaries of which the demo starts processes of its own, when URL is empty.
	ChargeOnce, GatewaySim string

	// URL is the REST face of an installation that runs already, APIKey a key for it, PSPURL its simulated PSP (optional). Only
	// what needs no control of processes is played on it.
	URL    string
	APIKey client.APIKey
	PSPURL string
}

// ErrDiffers: what came of a scenario is not what must come of it.
var ErrDiffers = errors.New("not every scenario went as it must")

// scenarioBound is the most time that one scenario may take.
const scenarioBound = 40 * time.Second

// List writes the scenarios' names and titles.
func List(w io.Writer) error {
	for _, sc := range scenarios {
		if _, err := fmt.Fprintf(w, "%-14s  %s\n", sc.name, sc.title); err != nil {
			return err
		}
	}
	return nil
}

// Run plays the scenarios one after another and writes a summary. It returns [ErrDiffers] when one did not go as it must, and
// another error when the demo could not be set up, or ctx has ended. What it started has ended when it returns.
func Run(ctx context.Context, o Options) (err error) {
	todo, err := choose(o.Only)
	if err != nil {
		return err
	}
	out := newPrinter(o.Out, o.Color)
	st, err := setUp(ctx, o, out)
	if err != nil {
		return err
	}
	var results []result
	defer func() {
		failed := err != nil && ctx.Err() == nil
		err = errors.Join(err, st.tearDown(context.WithoutCancel(ctx), o.Keep || failed))
	}()
	for n, sc := range todo {
		if why := sc.needs.missing(st); why != "" {
			out.left(n+1, len(todo), sc, why)
			continue
		}
		out.headline(n+1, len(todo), sc)
		r := playOne(ctx, st, sc, out)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("demo: interrupted: %w", err)
		}
		out.verdict(r)
		results = append(results, r)
		if err := st.restore(ctx); err != nil {
			return err
		}
	}
	if len(results) == 0 {
		return errors.New("demo: nothing could be played here")
	}
	out.summary(results)
	if slices.ContainsFunc(results, func(r result) bool { return !r.ok() }) {
		return ErrDiffers
	}
	return out.err
}

func choose(only string) ([]scenario, error) {
	if only == "" {
		return scenarios, nil
	}
	var names []string
	for _, sc := range scenarios {
		if sc.name == only {
			return []scenario{sc}, nil
		}
		names = append(names, sc.name)
	}
	return nil, fmt.Errorf("demo: there is no scenario %q; there are %s", only, strings.Join(names, ", "))
}

// result is a scenario that was played.
type result struct {
	scenario scenario
	took     time.Duration
	found    found
	checks   []check
	err      error // it could not be played to its end
}

func (r result) ok() bool {
	return r.err == nil && !slices.ContainsFunc(r.checks, func(c check) bool { return !c.ok() })
}

func playOne(ctx context.Context, st *stage, sc scenario, out *printer) result {
	ctx, cancel := context.WithTimeout(ctx, scenarioBound)
	defer cancel()
	s := newStory(ctx, st, sc, out)
	sc.play(s)
	s.awaitAll()
	f := s.look()
	return result{
		scenario: sc, took: time.Since(s.began), found: f, checks: append(sc.want.hold(f), s.checks...), err: s.err,
	}
}
