package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"chargeonce/internal/certs"
	"chargeonce/internal/psp"
	"chargeonce/internal/telemetry"
)

// pspFlags say where the payment service provider is and how much a call may cost. 0 is the default of package psp.
type pspFlags struct {
	URL        string           `name:"url" placeholder:"URL" help:"The payment service provider's address. Needed."`
	APIKey     telemetry.Secret `name:"api-key" placeholder:"KEY" help:"Its API key; better set by CHARGEONCE_PSP_API_KEY or --psp-api-key-file."`
	APIKeyFile string           `name:"api-key-file" placeholder:"FILE" help:"File that holds its API key."`

	TLSCA   string `name:"tls-ca" placeholder:"FILE" help:"PEM file of the CAs that its certificate is checked against. Default: the system's. A changed file is read again."`
	TLSCert string `name:"tls-cert" placeholder:"FILE" help:"PEM file of a client certificate for it (mutual TLS)."`
	TLSKey  string `name:"tls-key" placeholder:"FILE" help:"PEM file of the client certificate's key."`

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

func (f pspFlags) certFiles() certs.Files {
	return certs.Files{CA: f.TLSCA, Cert: f.TLSCert, Key: f.TLSKey}
}

// slowMark is when a call under way counts as failed.
func (f pspFlags) slowMark() time.Duration {
	if f.Slow == 0 {
		return f.AttemptTimeout / 2
	}
	return f.Slow
}

func (f pspFlags) client(log *slog.Logger) (*psp.Client, error) {
	if f.URL == "" {
		return nil, errors.New("no PSP: set --psp-url or CHARGEONCE_PSP_URL")
	}
	key, err := secret("psp-api-key", f.APIKey, f.APIKeyFile)
	if err != nil {
		return nil, err
	}
	if key == "" {
		return nil, errors.New("no PSP API key: set CHARGEONCE_PSP_API_KEY or --psp-api-key-file")
	}
	demoPSPKey.warn(log, key)
	store, err := openCerts("--psp-tls-", f.certFiles(), log)
	if err != nil {
		return nil, err
	}
	cfg := psp.Config{
		BaseURL: f.URL, APIKey: key, Logger: log,
		AttemptTimeout: f.AttemptTimeout, MaxAttempts: f.Attempts, SlowAfter: f.Slow, OpenFor: f.OpenFor,
		Slots: f.Slots, SlotWait: f.SlotWait,
	}
	if store != nil {
		cfg.TLS = store.Client
	}
	return psp.New(cfg)
}

func warm(ctx context.Context, c *psp.Client, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, warmTimeout)
	defer cancel()
	if err := c.Warm(ctx); err != nil {
		log.WarnContext(ctx, "not every connection to the PSP could be opened; they are opened when they are needed", "error", err)
	}
}
