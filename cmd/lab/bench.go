package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"chargeonce/internal/bench"
)

type benchCmd struct {
	Quick   bool   `help:"A few minutes in place of half an hour: 1, 64 and 128 in flight, a PSP that answers at once."`
	JSON    string `name:"json" placeholder:"FILE" type:"path" help:"Write all figures to this file."`
	Plot    string `placeholder:"FILE.svg" type:"path" help:"Draw the throughput over the number in flight."`
	Profile string `placeholder:"DIR" type:"path" help:"Put CPU and allocation profiles of the server, with 128 in flight, into this folder."`
	Keys    []int  `placeholder:"N,…" help:"Measure with so many keys in the table, in place of 10000 and 1000000. Five million take minutes to load."`

	ChargeOnce string `name:"chargeonce" placeholder:"FILE" type:"path" help:"The service's binary. Default: beside this one."`
	GatewaySim string `placeholder:"FILE" type:"path" help:"The simulated PSP's binary. Default: beside this one."`
}

// maxKeys bounds --keys, far above what a disk of today takes well.
const maxKeys = 100_000_000

// profileAt is how many are in flight when profiles are taken.
const profileAt = 128

// Run measures.
func (c benchCmd) Run(ctx context.Context) error {
	o := bench.Options{ChargeOnce: c.ChargeOnce, GatewaySim: c.GatewaySim, Plan: bench.Full(), Out: os.Stdout,
		ProfileDir: c.Profile, ProfileAt: profileAt}
	for name, path := range map[string]*string{"chargeonce": &o.ChargeOnce, "gateway-sim": &o.GatewaySim} {
		if err := find(name, path); err != nil {
			return err
		}
	}
	if c.Quick {
		o.Plan = bench.Quick()
	}
	if len(c.Keys) > 0 {
		o.Plan.Keys = c.Keys
	}
	for _, keys := range o.Plan.Keys {
		if keys < 1 || keys > maxKeys {
			return fmt.Errorf("--keys %d: want 1 to %d", keys, maxKeys)
		}
	}
	if info, err := os.Stderr.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb" {
		o.Bar = os.Stderr
	}
	report, err := bench.Run(ctx, o)
	return errors.Join(err, c.write(report))
}

// write writes the files that were asked for, of a run that was broken off too.
func (c benchCmd) write(r bench.Report) error {
	if c.JSON != "" {
		text, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return fmt.Errorf("--json: %w", err)
		}
		if err := os.WriteFile(c.JSON, append(text, '\n'), 0o644); err != nil {
			return fmt.Errorf("--json: %w", err)
		}
	}
	if c.Plot != "" {
		if err := os.WriteFile(c.Plot, bench.Plot(r), 0o644); err != nil {
			return fmt.Errorf("--plot: %w", err)
		}
	}
	return nil
}
