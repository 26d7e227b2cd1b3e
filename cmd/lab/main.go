// Command lab is what one does to the payment service: demo plays purchases through failures, torture attacks it, proof holds it to
// its bounds, bench measures it, and run makes the experiments of the documents.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

// cli is the command line. Each command is a file of its own.
type cli struct {
	Demo    demoCmd    `cmd:"" help:"Play purchases through every failure, and check that each is charged once. Exit status 1 if one is not."`
	Torture tortureCmd `cmd:"" help:"Attack the service with clients and faults, and hold it to its promises. Exit status 1 if it breaks one."`
	Proof   proofCmd   `cmd:"" help:"Make the experiments that hold the service to its bounds: hang, outage, slots taken, deadline, lost answers, and every gap that reconciliation closes. Exit status 1 if it misses one."`
	Bench   benchCmd   `cmd:"" help:"Measure payments per second, latency and CPU beside the bare SQL. No figure fails it; wrong books do."`
	Run     runCmd     `cmd:"" help:"Make an experiment, with numbers of your own if you like; or all of the documents'."`
	List    listCmd    `cmd:"" help:"List the experiments."`
}

func main() {
	var c cli
	options := append(experimentCommands(), kong.Name("lab"), kong.UsageOnError(), kong.ConfigureHelp(kong.HelpOptions{NoExpandSubcommands: true}),
		kong.Description("What one does to the payment service: play purchases through failures, attack it, measure it, and make the documents' experiments."))
	k := kong.Parse(&c, options...)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	context.AfterFunc(ctx, stop) // from then on a second signal has its usual effect, and kills
	k.BindTo(ctx, (*context.Context)(nil))
	if err := k.Run(); err != nil {
		if _, printErr := fmt.Fprintln(os.Stderr, "lab:", err); printErr != nil {
			os.Exit(2) // nobody can be told
		}
		os.Exit(1)
	}
}
