// Command chargeonce is the payment service. `chargeonce serve` answers requests, the other commands look after its
// database. Every flag can come from the environment too, as CHARGEONCE_ and its name; secrets should come from there or
// from a file, for a command line can be read by every process of the machine.
package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"chargeonce/internal/telemetry"
)

// cli is the command line. Each command is a file of its own.
type cli struct {
	globals

	Version kong.VersionFlag `help:"Print the version and exit."`

	Serve     serveCmd     `cmd:"" help:"Serve gRPC, REST and the admin port."`
	Reconcile reconcileCmd `cmd:"" help:"Settle what requests left open, in one pass."`
	Webhooks  webhooksCmd  `cmd:"" help:"Look after the PSP's events."`
	Migrate   migrateCmd   `cmd:"" help:"Bring the database's schema up or down."`
	APIKey    apikeyCmd    `cmd:"" name:"apikey" help:"Make, list and revoke API keys."`
	Doctor    doctorCmd    `cmd:"" help:"Check the configuration and what it names, and say what to fix. Exit status 0: nothing that fails; 1: something does; 2: it could not run."`
	Probe     probeCmd     `cmd:"" help:"Get a URL and fail unless all is well: a health check for where there is no curl."`
}

// globals are the flags that every command has.
type globals struct {
	MySQL mysqlFlags `embed:"" prefix:"mysql-"`

	telemetryFlags
}

func main() {
	var c cli
	k := kong.Parse(&c, kong.Name("chargeonce"), kong.DefaultEnvars("CHARGEONCE"), kong.UsageOnError(),
		kong.Description("A payment service that charges once, and always tells the outcome."),
		kong.Vars{"version": telemetry.Version()})

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	context.AfterFunc(ctx, stop) // from then on a second signal has its usual effect, and kills
	if err := run(ctx, k, &c.globals); err != nil {
		slog.Error("chargeonce failed", "command", k.Command(), "error", err)
		os.Exit(exitStatus(err))
	}
}

// exitStatus is 1, or what a command has given its error, as reconcile does.
func exitStatus(err error) int {
	var coded kong.ExitCoder
	if errors.As(err, &coded) {
		return coded.ExitCode()
	}
	return 1
}

func run(ctx context.Context, k *kong.Context, g *globals) error {
	tel, err := g.setup(ctx)
	if err != nil {
		return err
	}
	slog.SetDefault(tel.Log)
	defer flush(ctx, tel)
	k.BindTo(ctx, (*context.Context)(nil))
	return k.Run(g, tel)
}
