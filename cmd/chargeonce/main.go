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
	"time"

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
}

// globals are the flags that every command has.
type globals struct {
	MySQLDSN telemetry.Secret `name:"mysql-dsn" env:"CHARGEONCE_MYSQL_DSN,MYSQL_DSN" placeholder:"user:password@tcp(host:port)/database" help:"The database."`

	LogLevel  slog.Level `default:"info" help:"debug, info, warn or error."`
	LogFormat string     `default:"auto" enum:"auto,json,text" help:"auto is text on a terminal, else JSON."`
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

// telemetryGrace bounds how long the process stays to send its last telemetry.
const telemetryGrace = 5 * time.Second

func run(ctx context.Context, k *kong.Context, g *globals) (err error) {
	tel, err := telemetry.Setup(ctx, telemetry.Config{
		Service: "chargeonce", Log: telemetry.LogConfig{Level: g.LogLevel, Format: g.LogFormat},
	})
	if err != nil {
		return err
	}
	slog.SetDefault(tel.Log)
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), telemetryGrace)
		defer cancel()
		err = errors.Join(err, tel.Shutdown(last))
	}()
	k.BindTo(ctx, (*context.Context)(nil))
	return k.Run(g, tel)
}
