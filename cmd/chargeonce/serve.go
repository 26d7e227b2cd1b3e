package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"go.opentelemetry.io/otel"

	"chargeonce/internal/mysql"
	"chargeonce/internal/payment"
	"chargeonce/internal/server"
	"chargeonce/internal/telemetry"
	"chargeonce/migrations"
	"chargeonce/reconcile"
)

type serveCmd struct {
	GRPCListen  string `name:"grpc-listen" default:"127.0.0.1:9090" help:"Address of the gRPC face; port 0 takes a free one."`
	RESTListen  string `name:"rest-listen" default:"127.0.0.1:8080" help:"Address of the REST face."`
	AdminListen string `name:"admin-listen" default:"127.0.0.1:9091" help:"Address of /metrics, /debug/pprof and /admin/read-only: in clear, without a guard, so not to be reached from outside."`
	AddrFile    string `placeholder:"FILE" help:"Write the addresses to this file, as JSON, once they are listened on."`

	TLS      tlsFlags `embed:"" prefix:"tls-"`
	ReadOnly bool     `help:"Start in read-only mode: no new payments and no events of the PSP's, both told to come again; reads and replays are served. PUT and DELETE /admin/read-only on the admin port switch it."`

	Migrate  bool `help:"Bring the schema up first."`
	MySQLMax int  `name:"mysql-max-open" default:"32" help:"Connections to the database at the most."`

	DefaultDeadline time.Duration `default:"10s" help:"The deadline of a request that names none."`
	MaxDeadline     time.Duration `default:"30s" help:"The longest deadline; a longer one is cut to it."`
	MaxInFlight     int           `default:"1024" help:"Requests in flight at the most; one more is refused at once, and told when to come back."`
	RateLimit       float64       `default:"0" help:"Requests per second that each API key may send to this server; 0: no limit."`
	RateBurst       int           `default:"0" help:"How many of them at once; 0: a second's worth."`
	FinishTimeout   time.Duration `default:"3s" help:"Bounds the claim, the finish and the release, each."`
	Reserve         time.Duration `default:"200ms" help:"Kept back from the deadline to record the outcome."`
	LeaseMargin     time.Duration `default:"3s" help:"How much longer than a request a key's lease lasts."`
	DrainDelay      time.Duration `default:"0s" help:"How long to go on serving after SIGTERM has turned readiness off: as long as the load balancer needs to notice."`

	OnePaymentPerOrder bool `help:"Refuse a second payment of a user's order under another key, while the first is under way and once it has succeeded."`
	Coalesce           bool `default:"true" negatable:"" help:"Claims and finishes that wait at the same time share a statement and a commit: twice the payments per second under load, the same promises. --no-coalesce: each by itself."`

	PageToken pageTokenFlags `embed:"" prefix:"page-token-"`
	PSP       pspFlags       `embed:"" prefix:"psp-"`
	Webhook   webhookFlags   `embed:"" prefix:"webhook-"`
}

// Run serves until ctx ends, and then until what was begun has ended.
func (c serveCmd) Run(ctx context.Context, g *globals, tel *telemetry.Telemetry) (err error) {
	log := tel.Log
	pageKey, err := c.PageToken.key()
	if err != nil {
		return err
	}
	demoPageKey.warn(log, pageKey)
	if pageKey == "" {
		log.Warn("no page token key is set: a page token is good for this server alone, until it restarts. Set CHARGEONCE_PAGE_TOKEN_KEY.")
	}
	signing, err := c.Webhook.signing(log)
	if err != nil {
		return err
	}
	faces, err := c.TLS.certificates(log)
	if err != nil {
		return err
	}
	provider, err := c.PSP.client(log)
	if err != nil {
		return err
	}
	defer provider.Close()
	log.InfoContext(ctx, "a PSP call that takes longer than the slow mark counts as failed: it must lie above the measured p99, which `chargeonce doctor` compares",
		"slow_mark", c.PSP.slowMark())
	db, err := g.MySQL.open(ctx, log, mysql.Options{MaxOpen: c.MySQLMax})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := c.schema(ctx, db, log); err != nil {
		return err
	}
	unwatch, err := reconcile.Watch(otel.Meter("chargeonce/reconcile"), db)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unwatch()) }()

	flow := payment.NewFlow(db, provider, server.Renderer{}, payment.Timing{
		StoreTimeout: c.FinishTimeout, Reserve: c.Reserve, LeaseMargin: c.LeaseMargin,
		PSPKeyRetention: c.PSP.KeyRetention,
	}, log)
	flow.OnePaymentPerOrder = c.OnePaymentPerOrder
	if c.Coalesce {
		flow.Coalesce()
	}
	events, err := c.Webhook.handler(signing, db, flow, log)
	if err != nil {
		return err
	}
	srv, err := server.New(server.Config{
		DB: db, Flow: flow, Log: log,
		GRPCListen: c.GRPCListen, RESTListen: c.RESTListen, AdminListen: c.AdminListen,
		DefaultDeadline: c.DefaultDeadline, MaxDeadline: c.MaxDeadline,
		MaxInFlight: c.MaxInFlight, RateLimit: c.RateLimit, RateBurst: c.RateBurst,
		DrainDelay: c.DrainDelay, DrainTimeout: c.MaxDeadline + 2*c.FinishTimeout + time.Second,
		PageTokenKey: pageKey, Metrics: tel.Metrics, Webhook: events, TLS: faces, ReadOnly: c.ReadOnly,
	})
	if err != nil {
		return err
	}
	warm(ctx, provider, log)
	if err := srv.Start(ctx); err != nil {
		return err
	}
	addrs := srv.Addrs()
	log.InfoContext(ctx, "listening", "grpc", addrs.GRPC, "rest", addrs.REST, "admin", addrs.Admin, "version", telemetry.Version())
	if c.AddrFile != "" {
		if err := writeAddrs(c.AddrFile, addrs); err != nil {
			return err
		}
	}
	return srv.Run(ctx)
}

// schema brings the schema up if it was asked to, and refuses one that this build can't run on.
func (c serveCmd) schema(ctx context.Context, db *sql.DB, log *slog.Logger) error {
	if c.Migrate {
		if err := migrations.Up(ctx, db); err != nil {
			return err
		}
	}
	state, err := migrations.Check(ctx, db)
	if err != nil {
		return err
	}
	if state.Version > migrations.Latest() {
		log.WarnContext(ctx, "the schema is newer than this build", "version", state.Version, "needs", migrations.Latest())
	}
	return nil
}

// writeAddrs writes the file whole or not at all, for somebody waits for it to appear.
func writeAddrs(path string, addrs server.Addrs) error {
	text, err := json.Marshal(addrs)
	if err != nil {
		return fmt.Errorf("--addr-file: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("--addr-file: %w", err)
	}
	_, err = tmp.Write(append(text, '\n'))
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("--addr-file: %w", err), os.Remove(tmp.Name()))
	}
	return nil
}
