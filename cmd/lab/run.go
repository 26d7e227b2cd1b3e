package main

import (
	"context"
	"os"

	experiment "chargeonce/internal/lab"
)

// runCmd has one command for each experiment whose numbers can be chosen.
type runCmd struct {
	Timeout runTimeoutCmd `cmd:"" help:"Measure how long the PSP takes, and what attempt time-out an accepted rate of false time-outs implies."`
}

type runTimeoutCmd struct {
	labFlags

	Latency   string  `default:"lognormal p50 80ms p99.9 1.2s" help:"How long the simulated PSP takes: \"fixed 50ms\", \"uniform 10ms 100ms\" or \"lognormal p50 80ms p99.9 1.2s\"."`
	Calls     int     `default:"10000" help:"Calls to measure."`
	AtOnce    int     `default:"64" help:"Calls under way at once."`
	FalseRate float64 `default:"0.001" help:"Share of healthy calls that may be cut by the time-out."`
}

// Run measures.
func (c runTimeoutCmd) Run(ctx context.Context) error {
	env, err := c.env()
	if err != nil {
		return err
	}
	m := experiment.TimeoutMeasurement{Latency: c.Latency, Calls: c.Calls, AtOnce: c.AtOnce, FalseRate: c.FalseRate}
	return experiment.Run(ctx, os.Stdout, env, []experiment.Experiment{m.Experiment()}, experiment.Options{Seed: c.Seed})
}
