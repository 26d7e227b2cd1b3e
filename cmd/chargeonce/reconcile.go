package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"text/tabwriter"
	"time"

	"go.opentelemetry.io/otel"

	"chargeonce/internal/mysql"
	"chargeonce/internal/payment"
	"chargeonce/internal/psp"
	"chargeonce/internal/server"
	"chargeonce/internal/telemetry"
	"chargeonce/migrations"
	"chargeonce/reconcile"
	"chargeonce/webhook"
)

type reconcileCmd struct {
	Run    reconcileRunCmd `cmd:"" default:"withargs" help:"End what requests left open: one pass, or one after another. The default. Exit status 0: clean; 1: something needs a person; 2: it could not run."`
	Parked parkedCmd       `cmd:"" help:"What a person does about parked keys."`
}

type reconcileRunCmd struct {
	Every  time.Duration `default:"0s" help:"Go on with a pass each so often, until SIGTERM; 0: one pass."`
	Jitter time.Duration `default:"10s" help:"Added to each pause, up to so much."`
	DryRun bool          `help:"Change nothing; ask, and print what a pass would do."`
	Output string        `default:"table" enum:"table,json" help:"table or json."`

	AdminListen string `placeholder:"ADDRESS" help:"With --every: serve /metrics here. Must not be reached from outside."`

	Grace        time.Duration `default:"60s" help:"How long a key's lease must be over: a client who was told to retry goes first."`
	AbandonAfter time.Duration `default:"1h" help:"Age of the last attempt from which a key that the PSP never saw is abandoned."`
	Lease        time.Duration `default:"30s" help:"How long a key is held to settle it."`
	PendingAfter time.Duration `default:"5m" help:"How long a charge may be pending before it is asked for."`
	Overlap      time.Duration `default:"10m" help:"How much of the statement before its mark is read again."`
	Quiet        time.Duration `default:"10m" help:"How much of the newest end of the statement is left alone."`

	KeyRetention        time.Duration `default:"24h" help:"How long stored refusals are kept; 24h at the least."`
	ChargedKeyRetention time.Duration `default:"2160h" help:"How long keys that charged are kept."`
	EventRetention      time.Duration `default:"168h" help:"How long webhook events are kept; 96h at the least."`
	EventAttempts       int           `default:"10" help:"How often an event is tried before it is set aside."`

	Concurrency int     `default:"4" help:"Keys or charges worked on at once."`
	Batch       int     `default:"200" help:"Rows that one statement reads or deletes."`
	Rate        float64 `default:"50" help:"Calls to the PSP per second at the most."`

	PSP pspFlags `embed:"" prefix:"psp-"`
}

// Run runs one pass, or passes until ctx ends. It returns a [statusError] unless all is clean.
func (c reconcileRunCmd) Run(ctx context.Context, g *globals, tel *telemetry.Telemetry) error {
	if err := c.run(ctx, g, tel); err != nil {
		var coded *statusError
		if errors.As(err, &coded) {
			return err
		}
		return &statusError{code: reconcile.ExitCouldNotRun, err: err}
	}
	return nil
}

func (c reconcileRunCmd) run(ctx context.Context, g *globals, tel *telemetry.Telemetry) (err error) {
	bar := newProgressBar(os.Stderr)
	log := bar.logger(tel.Log)
	provider, err := c.PSP.client(log)
	if err != nil {
		return err
	}
	defer provider.Close()
	db, err := g.MySQL.open(ctx, log, mysql.Options{MaxOpen: c.Concurrency + 4})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := migrations.Check(ctx, db); err != nil {
		return err
	}
	cfg := c.config(db, provider, log)
	if bar != nil {
		cfg.Progress = bar.show
	}
	r, err := reconcile.New(cfg)
	if err != nil {
		return err
	}
	if c.Every > 0 {
		unwatch, err := reconcile.Watch(otel.Meter("chargeonce/reconcile"), db)
		if err != nil {
			return err
		}
		return errors.Join(c.loop(ctx, r, bar, tel.Metrics, log), unwatch())
	}
	rep, err := r.Pass(ctx)
	bar.end()
	if err = errors.Join(err, c.print(rep)); err != nil {
		return err
	}
	return statusOf(rep)
}

// loop runs passes until ctx ends.
func (c reconcileRunCmd) loop(ctx context.Context, r *reconcile.Reconciler, bar *progressBar, metrics http.Handler, log *slog.Logger) (err error) {
	if c.AdminListen != "" {
		var stop func() error
		if stop, err = serveMetrics(ctx, c.AdminListen, metrics, log); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	r.Every(ctx, c.Every, c.Jitter, func(rep reconcile.Report, err error) {
		bar.end()
		if err != nil {
			log.ErrorContext(ctx, "reconciliation failed; the next pass tries again", "error", err)
		}
		if err := c.print(rep); err != nil {
			log.ErrorContext(ctx, "the report could not be printed", "error", err)
		}
	})
	return nil
}

func (c reconcileRunCmd) config(db *sql.DB, provider *psp.Client, log *slog.Logger) reconcile.Config {
	flow := payment.NewFlow(db, provider, server.Renderer{}, payment.Timing{}, log)
	return reconcile.Config{
		DB: db, PSP: provider, Renderer: server.Renderer{}, Logger: log,
		Inbox:  webhook.NewInbox(db, flow, c.EventAttempts, log),
		DryRun: c.DryRun,

		Grace:               orNone(c.Grace),
		AbandonAfter:        orNone(c.AbandonAfter),
		Lease:               c.Lease,
		PendingAfter:        orNone(c.PendingAfter),
		Overlap:             orNone(c.Overlap),
		Quiet:               orNone(c.Quiet),
		KeyRetention:        c.KeyRetention,
		ChargedKeyRetention: c.ChargedKeyRetention,
		EventRetention:      c.EventRetention,
		PSPKeyRetention:     c.PSP.KeyRetention,
		Concurrency:         c.Concurrency,
		Batch:               c.Batch,
		Rate:                c.Rate,
	}
}

// orNone keeps a 0 of the command line from meaning the default, as it does in a reconcile.Config.
func orNone(d time.Duration) time.Duration {
	if d == 0 {
		return time.Nanosecond
	}
	return d
}

// print writes the report of a pass, unless the pass did not get to begin.
func (c reconcileRunCmd) print(rep reconcile.Report) error {
	if rep.StartedAt.IsZero() {
		return nil
	}
	if c.Output == "json" {
		return rep.WriteJSON(os.Stdout)
	}
	return rep.WriteTable(os.Stdout)
}

// statusError ends the process with a status of its own (kong.ExitCoder).
type statusError struct {
	code int
	err  error
}

func (e *statusError) Error() string { return e.err.Error() }

func (e *statusError) Unwrap() error { return e.err }

// ExitCode is the status that the process ends with.
func (e *statusError) ExitCode() int { return e.code }

func statusOf(rep reconcile.Report) error {
	switch code := rep.ExitCode(); code {
	case reconcile.ExitClean:
		return nil
	case reconcile.ExitNeedsPerson:
		return &statusError{code: code, err: fmt.Errorf("%d need a person", rep.NeedsPerson)}
	default:
		return &statusError{code: code, err: errors.New("the PSP was down, or the pass was stopped; the next pass goes on")}
	}
}

type parkedCmd struct {
	List    parkedListCmd    `cmd:"" help:"List the keys that wait for a person, and why."`
	Resolve parkedResolveCmd `cmd:"" help:"Give a parked key back to the flow, or end it."`
}

type parkedListCmd struct {
	Limit int `default:"100" help:"How many at the most."`
}

func (c parkedListCmd) Run(ctx context.Context, g *globals, tel *telemetry.Telemetry) error {
	return g.withDB(ctx, tel.Log, func(db *sql.DB) error {
		rows, err := reconcile.NewParked(db, server.Renderer{}).List(ctx, c.Limit)
		if err != nil {
			return err
		}
		w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
		if _, err := fmt.Fprintln(w, "USER\tPAYMENT\tORDER\tAMOUNT\tSINCE\tREASON"); err != nil {
			return err
		}
		for _, r := range rows {
			if _, err := fmt.Fprintf(w, "%d\t%s\t%s\t%d %s\t%s\t%s\n",
				r.UserID, r.PaymentID, r.OrderID, r.Amount, r.Currency, r.CreatedAt.Format(time.RFC3339), r.ParkedFor); err != nil {
				return err
			}
		}
		return w.Flush()
	})
}

type parkedResolveCmd struct {
	User    int64  `required:"" help:"Whose key."`
	Payment string `arg:"" help:"The payment id, as list shows it."`
	Requeue bool   `xor:"how" required:"" help:"What was wrong is mended: ask the PSP again and decide anew."`
	Abandon bool   `xor:"how" required:"" help:"It is certain that no money of this purchase is kept at the PSP: end the key as PAYMENT_ABANDONED."`
}

func (c parkedResolveCmd) Run(ctx context.Context, g *globals, tel *telemetry.Telemetry) error {
	return g.withDB(ctx, tel.Log, func(db *sql.DB) error {
		desk := reconcile.NewParked(db, server.Renderer{})
		end := desk.Requeue
		if c.Abandon {
			end = desk.Abandon
		}
		if err := end(ctx, c.User, c.Payment); err != nil {
			return fmt.Errorf("user %d, %s: %w", c.User, c.Payment, err)
		}
		return nil
	})
}
