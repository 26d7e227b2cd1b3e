package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	experiment "chargeonce/internal/lab"
)

// labFlags are what every command that makes experiments has.
type labFlags struct {
	Seed uint64 `default:"1" help:"Seed of all dice. What depends on the order in which requests arrive still differs between runs."`

	ChargeOnce string `name:"chargeonce" placeholder:"FILE" type:"path" help:"The service's binary. Default: beside this one."`
	GatewaySim string `placeholder:"FILE" type:"path" help:"The simulated PSP's binary. Default: beside this one."`
}

// env names the binaries. Not every experiment needs them, so it does not look for them.
func (f labFlags) env() (experiment.Env, error) {
	env := experiment.Env{ChargeOnce: f.ChargeOnce, GatewaySim: f.GatewaySim}
	self, err := os.Executable()
	if err != nil {
		return env, fmt.Errorf("where are the binaries? %w", err)
	}
	for name, path := range map[string]*string{"chargeonce": &env.ChargeOnce, "gateway-sim": &env.GatewaySim} {
		if *path == "" {
			*path = filepath.Join(filepath.Dir(self), name)
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
	if err := env.Check(); err != nil {
		return err
	}
	r := experiment.Runner{Out: os.Stdout, Terminal: terminal(os.Stderr), Env: env,
		Options: experiment.Options{Small: c.Small, Seed: c.Seed, Timed: !c.Small}}
	_, err = r.Run(ctx, todo)
	return err
}

// terminal returns f if somebody looks at it.
func terminal(f *os.File) io.Writer {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return f
}

// writable reports whether a file that is to be written at the end can be, so that nothing is made in vain. Empty is no file.
func writable(path string) (err error) {
	if path == "" {
		return nil
	}
	_, err = os.Stat(path)
	missing := errors.Is(err, os.ErrNotExist)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil || !missing {
		return err
	}
	return os.Remove(path)
}
