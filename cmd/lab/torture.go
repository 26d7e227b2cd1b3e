package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"chargeonce/internal/mysql"
	"chargeonce/internal/torture"
)

type tortureCmd struct {
	Duration time.Duration `default:"60s" help:"How long to attack; healing and checking come after it."`
	Clients  int           `default:"64" help:"How many buy at once."`
	Seed     uint64        `placeholder:"N" help:"Decides the faults and the clients' choices. Default: a random one, which is printed."`
	Guard    bool          `name:"one-payment-per-order" default:"true" negatable:"" help:"Have an order paid once, whatever keys its clients send."`
	Coalesce string        `default:"mixed" enum:"mixed,all,none" help:"Which servers coalesce claims and finishes: all but the first, all, or none."`
	Faults   []string      `placeholder:"NAME,…" help:"Strike with these alone."`
	List     bool          `help:"List the faults."`
	Keep     bool          `help:"Keep the logs; they are kept too after a violation."`
	Own      bool          `name:"own-mysql" default:"true" negatable:"" help:"Start a MySQL for the run, and kill that one too; else use the one of MYSQL_DSN."`

	ChargeOnce string `name:"chargeonce" placeholder:"FILE" type:"path" help:"The service's binary. Default: beside this one."`
	GatewaySim string `placeholder:"FILE" type:"path" help:"The simulated PSP's binary. Default: beside this one."`
}

// Run attacks. A violation is an error.
func (c tortureCmd) Run(ctx context.Context) error {
	if c.List {
		for _, line := range torture.FaultNames() {
			if _, err := fmt.Fprintln(os.Stdout, line); err != nil {
				return err
			}
		}
		return nil
	}
	cfg := torture.Config{
		ChargeOnce: c.ChargeOnce, GatewaySim: c.GatewaySim, Duration: c.Duration, Clients: c.Clients, Seed: c.Seed, Guard: c.Guard,
		Coalesce: torture.Coalesce(c.Coalesce),
		Faults:   c.Faults, Keep: c.Keep, Out: os.Stdout,
	}
	for name, path := range map[string]*string{"chargeonce": &cfg.ChargeOnce, "gateway-sim": &cfg.GatewaySim} {
		if err := find(name, path); err != nil {
			return err
		}
	}
	if cfg.Seed == 0 {
		cfg.Seed = 1 + rand.Uint64N(1<<32)
	}
	var err error
	if c.Own {
		cfg.MySQLScript, err = mysql.FindScript()
	} else {
		cfg.DSN = os.Getenv("MYSQL_DSN")
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(os.Stdout, "Seed %d: %s with %d clients. The faults, as they heal:\n", cfg.Seed, cfg.Duration, cfg.Clients)
	if err != nil {
		return err
	}
	res, err := torture.Run(ctx, cfg)
	if err != nil {
		return err
	}
	if err := res.Write(os.Stdout); err != nil {
		return err
	}
	if !res.OK() {
		return torture.ErrViolated
	}
	return nil
}
