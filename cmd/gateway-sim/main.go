// Command gateway-sim is the simulated PSP as a process of its own: CONTRACT.md over HTTP, and faults on demand under
// /admin. It ends on SIGTERM or SIGINT; a second one ends it at once.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	gatewaysim "chargeonce/gateway-sim"
)

// flags are the command line. Every flag can come from the environment too, as GATEWAY_SIM_ and its name; secrets should,
// for a command line can be read by every process of the machine.
type flags struct {
	Listen        string        `help:"Address to serve on." default:"127.0.0.1:8081"`
	File          string        `help:"File that keeps charges, keys and events." default:"gateway-sim.db" type:"path"`
	APIKey        string        `name:"api-key" help:"API key that callers must send; better set by GATEWAY_SIM_API_KEY. Default: the public key of demonstrations." placeholder:"KEY"`
	PendingAfter  time.Duration `help:"How long a pending charge stays pending." default:"2s"`
	KeyRetention  time.Duration `help:"How long idempotency keys are remembered; 0: for ever." default:"0s"`
	Latency       string        `help:"Processing latency of a charge: \"fixed 50ms\", \"uniform 10ms 100ms\" or \"lognormal p50 80ms p99.9 1.2s\"." placeholder:"DISTRIBUTION"`
	Faults        string        `help:"JSON file of faults, as PUT /admin/faults takes them." type:"existingfile" placeholder:"FILE"`
	ShutdownGrace time.Duration `help:"How long requests may finish after SIGTERM." default:"5s"`
	MaxFileSize   int           `help:"Size in bytes at which the file is full; 0: no limit." default:"0"`
	LogLevel      slog.Level    `help:"debug, info, warn or error." default:"info"`
	Webhook       webhookFlags  `embed:"" prefix:"webhook-"`
}

type webhookFlags struct {
	URL         string        `name:"url" help:"Where events go; PUT /admin/webhooks changes it." placeholder:"URL"`
	Secrets     []string      `help:"Signing secrets, whsec_…, comma separated; all of them sign. Better set by GATEWAY_SIM_WEBHOOK_SECRETS. Default: the public secret of demonstrations." placeholder:"SECRET"`
	Speedup     float64       `help:"Divides every wait between two deliveries of an event." default:"1"`
	Timeout     time.Duration `help:"Time-out of one delivery." default:"15s"`
	Concurrency int           `help:"Deliveries at once." default:"32"`
}

func main() {
	var f flags
	kong.Parse(&f, kong.Name("gateway-sim"), kong.DefaultEnvars("GATEWAY_SIM"),
		kong.Description("A simulated payment service provider, with faults on demand. Its file survives SIGKILL, not a power loss."))
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: f.LogLevel}))

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	// Once the first signal has come, the next one has its usual effect again and kills.
	context.AfterFunc(ctx, stop)
	cfg, err := config(f, log)
	if err == nil {
		err = serve(ctx, cfg, f.Listen)
	}
	if err != nil {
		log.Error("gateway-sim failed", "error", err)
		os.Exit(1)
	}
}

// serve answers on the address until ctx ends.
func serve(ctx context.Context, cfg gatewaysim.Config, address string) (err error) {
	sim, err := gatewaysim.Open(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sim.Close()) }()
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	warn(cfg, ln.Addr())
	cfg.Logger.Info("gateway-sim is listening", "address", ln.Addr().String(), "file", cfg.Path)
	return sim.Serve(ctx, ln)
}

// config makes the flags a Config.
func config(f flags, log *slog.Logger) (gatewaysim.Config, error) {
	cfg := gatewaysim.Config{
		Path:               f.File,
		APIKey:             f.APIKey,
		WebhookURL:         f.Webhook.URL,
		WebhookSecrets:     f.Webhook.Secrets,
		WebhookSpeedup:     f.Webhook.Speedup,
		WebhookTimeout:     f.Webhook.Timeout,
		WebhookConcurrency: f.Webhook.Concurrency,
		PendingAfter:       f.PendingAfter,
		KeyRetention:       f.KeyRetention,
		ShutdownGrace:      f.ShutdownGrace,
		MaxFileSize:        f.MaxFileSize,
		Logger:             log,
	}
	if cfg.APIKey == "" {
		cfg.APIKey = gatewaysim.DemoAPIKey
	}
	if err := cfg.Latency.UnmarshalText([]byte(f.Latency)); err != nil {
		return cfg, fmt.Errorf("--latency: %w", err)
	}
	if f.Faults != "" {
		text, err := os.ReadFile(f.Faults)
		if err != nil {
			return cfg, fmt.Errorf("--faults: %w", err)
		}
		faults, err := gatewaysim.ParseFaults(text)
		if err != nil {
			return cfg, fmt.Errorf("--faults %s: %w", f.Faults, err)
		}
		cfg.Faults = &faults
	}
	return cfg, nil
}

// warn says loudly what is fine on a developer's machine and nowhere else.
func warn(cfg gatewaysim.Config, addr net.Addr) {
	log := cfg.Logger
	if cfg.APIKey == gatewaysim.DemoAPIKey {
		log.Warn("THE DEMO API KEY IS IN USE: everybody knows it. Set GATEWAY_SIM_API_KEY.")
	}
	if len(cfg.WebhookSecrets) == 0 {
		log.Warn("THE DEMO WEBHOOK SECRET IS IN USE: everybody can forge events. Set GATEWAY_SIM_WEBHOOK_SECRETS.")
	}
	if tcp, ok := addr.(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
		log.Warn("THE ADMIN API IS OPEN to everybody who can reach this address; it has no credential.", "address", addr.String())
	}
}
