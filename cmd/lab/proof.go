package main

import (
	"context"
	"os"

	experiment "chargeonce/internal/lab"
)

// labFlags are what every command that makes experiments has.
type labFlags struct {
	Seed uint64 `default:"1" help:"Seed of the PSP's dice."`

	ChargeOnce string `name:"chargeonce" placeholder:"FILE" type:"path" help:"The service's binary. Default: beside this one."`
	GatewaySim string `placeholder:"FILE" type:"path" help:"The simulated PSP's binary. Default: beside this one."`
}

func (f labFlags) env() (experiment.Env, error) {
	env := experiment.Env{ChargeOnce: f.ChargeOnce, GatewaySim: f.GatewaySim}
	for name, path := range map[string]*string{"chargeonce": &env.ChargeOnce, "gateway-sim": &env.GatewaySim} {
		if err := find(name, path); err != nil {
			return experiment.Env{}, err
		}
	}
	return env, nil
}

type proofCmd struct {
	labFlags

	Only  string `placeholder:"NAME" help:"Make one experiment."`
	Small bool   `help:"Make each in a few seconds. Bounds on time are shown then, and bind nothing."`
}

// Run makes the experiments of the proof.
func (c proofCmd) Run(ctx context.Context) error {
	todo, err := experiment.Proof(c.Only)
	if err != nil {
		return err
	}
	env, err := c.env()
	if err != nil {
		return err
	}
	return experiment.Run(ctx, os.Stdout, env, todo, experiment.Options{Small: c.Small, Seed: c.Seed})
}

type listCmd struct{}

// Run lists the experiments.
func (listCmd) Run() error { return experiment.List(os.Stdout) }
