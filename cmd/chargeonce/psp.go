package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"chargeonce/internal/psp"
	"chargeonce/internal/telemetry"
)

// demoPSPKey is the simulator's public key, which guards nothing.
const demoPSPKey = "psp_demo_key"

// pspFlags say where the payment service provider is and how much a call may cost. 0 is the default of package psp.
type pspFlags struct {
	URL        string           `name:"url" required:"" placeholder:"URL" help:"The payment service provider's address."`
	APIKey     telemetry.Secret `name:"api-key" placeholder:"KEY" help:"Its API key; better set by CHARGEONCE_PSP_API_KEY or --psp-api-key-file."`
	APIKeyFile string           `name:"api-key-file" placeholder:"FILE" help:"File that holds its API key."`

	AttemptTimeout time.Duration `default:"2s" help:"Bounds one attempt at it."`
	Attempts       int           `default:"4" help:"Attempts in all, the first included."`
	Slow           time.Duration `placeholder:"1s" help:"A call that takes longer counts as failed for the breaker; must lie above the measured p99. Default: half the attempt time-out."`
	OpenFor        time.Duration `default:"1s" help:"How long the breaker stays open before it probes."`
	KeyRetention   time.Duration `default:"2160h" help:"How long it surely remembers an idempotency key. A key that is older is asked for and never sent again."`
	Slots          int           `default:"64" help:"Calls at once."`
	SlotWait       time.Duration `default:"50ms" help:"How long a call may wait for a slot."`
}

// warmTimeout bounds opening the connections at the start. A provider that is down then is no reason not to serve.
const warmTimeout = 3 * time.Second

func (f pspFlags) client(log *slog.Logger) (*psp.Client, error) {
	key, err := secret("psp-api-key", f.APIKey, f.APIKeyFile)
	if err != nil {
		return nil, err
	}
	if key == "" {
		return nil, errors.New("no PSP API key: set CHARGEONCE_PSP_API_KEY or --psp-api-key-file")
	}
	if key.Reveal() == demoPSPKey {
		log.Warn("THE DEMO PSP API KEY IS IN USE: everybody knows it. Set CHARGEONCE_PSP_API_KEY.")
	}
	return psp.New(psp.Config{
		BaseURL: f.URL, APIKey: key, Logger: log,
		AttemptTimeout: f.AttemptTimeout, MaxAttempts: f.Attempts, SlowAfter: f.Slow, OpenFor: f.OpenFor,
		Slots: f.Slots, SlotWait: f.SlotWait,
	})
}

func warm(ctx context.Context, c *psp.Client, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, warmTimeout)
	defer cancel()
	if err := c.Warm(ctx); err != nil {
		log.WarnContext(ctx, "not every connection to the PSP could be opened; they are opened when they are needed", "error", err)
	}
}
