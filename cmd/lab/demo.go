package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"chargeonce/api/payments/v1/client"
	"chargeonce/internal/demo"
)

type demoCmd struct {
	Only string `placeholder:"NAME" help:"Play one scenario."`
	List bool   `help:"List the scenarios."`
	Keep bool   `help:"Keep the database, the logs and the PSP's file; they are kept too when a scenario fails."`

	ChargeOnce string `name:"chargeonce" placeholder:"FILE" type:"path" help:"The service's binary. Default: beside this one."`
	GatewaySim string `placeholder:"FILE" type:"path" help:"The simulated PSP's binary. Default: beside this one."`

	URL    string        `name:"url" placeholder:"URL" help:"Play on this installation's REST face, and only what needs no control of its processes."`
	APIKey client.APIKey `name:"api-key" env:"CHARGEONCE_API_KEY" placeholder:"KEY" help:"An API key of that installation."`
	PSPURL string        `name:"psp-url" placeholder:"URL" help:"That installation's simulated PSP, to count charges at and to play with its faults."`
}

// Run plays.
func (c demoCmd) Run(ctx context.Context) error {
	if c.List {
		return demo.List(os.Stdout)
	}
	o := demo.Options{
		Out: os.Stdout, Color: colored(os.Stdout), Only: c.Only, Keep: c.Keep,
		ChargeOnce: c.ChargeOnce, GatewaySim: c.GatewaySim, URL: c.URL, APIKey: c.APIKey, PSPURL: c.PSPURL,
	}
	if o.URL == "" {
		for name, path := range map[string]*string{"chargeonce": &o.ChargeOnce, "gateway-sim": &o.GatewaySim} {
			if err := find(name, path); err != nil {
				return err
			}
		}
	}
	return demo.Run(ctx, o)
}

// find completes the path of a binary that is not given.
func find(name string, path *string) error {
	if *path == "" {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("where is %s? %w", name, err)
		}
		*path = filepath.Join(filepath.Dir(self), name)
	}
	if _, err := os.Stat(*path); err != nil {
		return fmt.Errorf("there is no %s: %w; `make demo` builds it, --%s names it", name, err, name)
	}
	return nil
}

// colored reports whether colours may be written: to a terminal, unless NO_COLOR is set (no-color.org).
func colored(f *os.File) bool {
	if os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
