package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"chargeonce/internal/payment"
	"chargeonce/internal/psp"
	"chargeonce/internal/server"
	"chargeonce/internal/telemetry"
	"chargeonce/webhook"
)

// webhookFlags say who signs the PSP's events. Several secrets are valid at once, for a rotation.
type webhookFlags struct {
	Secrets     []telemetry.Secret `name:"secrets" placeholder:"WHSEC,…" help:"Signing secrets of the PSP's events; better set by CHARGEONCE_WEBHOOK_SECRETS or --webhook-secrets-file."`
	SecretsFile string             `name:"secrets-file" placeholder:"FILE" help:"File that holds them, one a line."`
	Tolerance   time.Duration      `default:"5m" help:"How far the time of a delivery may lie from now, before or after."`
}

// signing returns the secrets, and says in the log what is wrong with having none, or these.
func (f webhookFlags) signing(log *slog.Logger) ([]telemetry.Secret, error) {
	secrets, err := f.secrets()
	if err != nil {
		return nil, err
	}
	if len(secrets) == 0 {
		log.Warn("no webhook secret is set: the PSP's events are not received. Set CHARGEONCE_WEBHOOK_SECRETS.")
	}
	for i, s := range secrets {
		if err := webhook.CheckSecret(s); err != nil {
			return nil, fmt.Errorf("webhook secret %d of %d: %w", i+1, len(secrets), err)
		}
		demoWebhookKey.warn(log, s)
	}
	return secrets, nil
}

// handler serves POST /webhooks/psp; nil when there is no secret, since then nobody can be believed.
func (f webhookFlags) handler(secrets []telemetry.Secret, db *sql.DB, flow *payment.Flow, log *slog.Logger) (http.Handler, error) {
	if len(secrets) == 0 {
		return nil, nil
	}
	h, err := webhook.New(webhook.Config{DB: db, Flow: flow, Secrets: secrets, Tolerance: f.Tolerance, Logger: log})
	if err != nil {
		return nil, err
	}
	return h, nil
}

func (f webhookFlags) secrets() ([]telemetry.Secret, error) {
	if f.SecretsFile == "" {
		return f.Secrets, nil
	}
	if len(f.Secrets) > 0 {
		return nil, errors.New("--webhook-secrets and --webhook-secrets-file are both set")
	}
	text, err := secret("webhook-secrets", "", f.SecretsFile)
	if err != nil {
		return nil, err
	}
	var out []telemetry.Secret
	for _, line := range strings.Fields(text.Reveal()) {
		out = append(out, telemetry.Secret(line))
	}
	return out, nil
}

type webhooksCmd struct {
	List   webhooksListCmd   `cmd:"" help:"List the events that wait to be tried again, were set aside, or need a person."`
	Replay webhooksReplayCmd `cmd:"" help:"Try events again now, once their cause is mended."`
	Ignore webhooksIgnoreCmd `cmd:"" help:"Put an event aside that was dealt with in another way."`
}

type webhooksListCmd struct {
	Limit  int    `default:"100" help:"How many at the most."`
	Output string `default:"table" enum:"table,json" help:"table or json."`
}

func (c webhooksListCmd) Run(ctx context.Context, g *globals, tel *telemetry.Telemetry) error {
	return withInbox(ctx, g, tel, func(in *webhook.Inbox) error {
		events, err := in.List(ctx, c.Limit)
		if err != nil {
			return err
		}
		if c.Output == "json" {
			return json.NewEncoder(os.Stdout).Encode(events)
		}
		w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
		if _, err := fmt.Fprintln(w, "EVENT\tTYPE\tUSER\tCHARGE\tSTATE\tATTEMPTS\tRECEIVED\tERROR"); err != nil {
			return err
		}
		for _, e := range events {
			if _, err := fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%d\t%s\t%s\n",
				e.EventID, e.Type, e.UserID, e.ChargeID, e.State, e.Attempts, e.ReceivedAt.Format(time.RFC3339), e.LastError); err != nil {
				return err
			}
		}
		return w.Flush()
	})
}

type webhooksReplayCmd struct {
	Events []string `arg:"" name:"event" help:"Ids of events, as list shows them."`
}

func (c webhooksReplayCmd) Run(ctx context.Context, g *globals, tel *telemetry.Telemetry) error {
	return withInbox(ctx, g, tel, func(in *webhook.Inbox) error {
		left := 0
		for _, id := range c.Events {
			state, err := in.Replay(ctx, id)
			if errors.Is(err, sql.ErrNoRows) {
				return fmt.Errorf("there is no event %s", id)
			}
			if err != nil {
				return err
			}
			if state == webhook.Failed || state == webhook.Dead {
				left++
			}
			if _, err := fmt.Fprintf(os.Stdout, "%s %s\n", id, state); err != nil {
				return err
			}
		}
		if left > 0 {
			return fmt.Errorf("%d could not be applied; list says why", left)
		}
		return nil
	})
}

type webhooksIgnoreCmd struct {
	Event string `arg:"" help:"Id of the event."`
}

func (c webhooksIgnoreCmd) Run(ctx context.Context, g *globals, tel *telemetry.Telemetry) error {
	return withInbox(ctx, g, tel, func(in *webhook.Inbox) error {
		done, err := in.Ignore(ctx, c.Event)
		if err == nil && !done {
			err = fmt.Errorf("no event %s waits or needs a person", c.Event)
		}
		return err
	})
}

// withInbox runs do on the inbox. Applying an event asks the PSP nothing.
func withInbox(ctx context.Context, g *globals, tel *telemetry.Telemetry, do func(*webhook.Inbox) error) error {
	return g.withDB(ctx, tel.Log, func(db *sql.DB) error {
		flow := payment.NewFlow(db, noPSP{}, server.Renderer{}, payment.Timing{}, tel.Log)
		return do(webhook.NewInbox(db, flow, 0, tel.Log))
	})
}

// noPSP is for a flow that only applies what the PSP has said.
type noPSP struct{}

func (noPSP) Charge(context.Context, psp.ChargeRequest) psp.Result  { return psp.Result{} }
func (noPSP) LookUp(context.Context, string, psp.Expect) psp.Result { return psp.Result{} }
func (noPSP) Cancel(context.Context, string, psp.Expect) psp.Result { return psp.Result{} }
