package main

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"google.golang.org/protobuf/types/known/wrapperspb"

	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/internal/idempotency"
	"chargeonce/internal/mysql"
	"chargeonce/internal/payment"
	"chargeonce/internal/telemetry"
)

// command runs a command line and returns the status that the process would end with.
func command(t *testing.T, args ...string) int {
	t.Helper()
	var c struct {
		globals
		Reconcile reconcileCmd `cmd:""`
		Webhooks  webhooksCmd  `cmd:""`
	}
	parser, err := kong.New(&c)
	if err != nil {
		t.Fatal(err)
	}
	k, err := parser.Parse(args)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	k.BindTo(t.Context(), (*context.Context)(nil))
	err = k.Run(&c.globals, &telemetry.Telemetry{Log: slog.New(slog.DiscardHandler)})
	var coded kong.ExitCoder
	switch {
	case err == nil:
		return 0
	case errors.As(err, &coded):
		return coded.ExitCode()
	}
	t.Logf("%v: %v", args, err)
	return -1
}

func TestReconcileEndsWithTheStatusOfItsPass(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	sim := gatewaysim.Start(t, gatewaysim.Config{})
	reconcile := func(more ...string) int {
		return command(t, append([]string{"reconcile", "--mysql-dsn", db.DSN, "--psp-url", sim.URL, "--psp-api-key", sim.APIKey}, more...)...)
	}
	if got := reconcile(); got != 0 {
		t.Errorf("nothing to do: %d", got)
	}
	key, err := idempotency.ParseKey([]string{"k"})
	if err != nil {
		t.Fatal(err)
	}
	claimed, err := idempotency.NewStore(db.DB).Acquire(t.Context(), idempotency.Claim{
		UserID: 42, Key: key, RPC: "test", Request: wrapperspb.String("x"), PaymentID: payment.NewID(),
		OrderID: "o-1", Amount: 1999, Currency: "EUR", TTL: -time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	status := func() (s string) {
		if err := db.QueryRowContext(t.Context(), `SELECT status FROM idempotency_keys`).Scan(&s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	if got := reconcile("--grace", "0s", "--abandon-after", "0s", "--dry-run", "--output", "json"); got != 0 || status() != "processing" {
		t.Errorf("dry run: %d, key %s", got, status())
	}
	if err := idempotency.NewStore(db.DB).Park(t.Context(), claimed.Lease, "a test"); err != nil {
		t.Fatal(err)
	}
	if got := reconcile(); got != 1 {
		t.Errorf("with a parked key: %d, want 1", got)
	}
	user := []string{"--user", "42", claimed.Lease.PaymentID}
	for _, line := range [][]string{
		{"reconcile", "parked", "list", "--mysql-dsn", db.DSN},
		append([]string{"reconcile", "parked", "resolve", "--mysql-dsn", db.DSN, "--requeue"}, user...),
		{"webhooks", "list", "--mysql-dsn", db.DSN},
	} {
		if got := command(t, line...); got != 0 {
			t.Errorf("%v: %d", line, got)
		}
	}
	if got := reconcile("--grace", "0s", "--abandon-after", "0s"); got != 0 || status() != "done" {
		t.Errorf("given back: %d, key %s", got, status())
	}
	if got := reconcile("--key-retention", "1h"); got != 2 {
		t.Errorf("a retention below the floor: %d, want 2", got)
	}
	if got := command(t, "reconcile", "--mysql-dsn", "u:p@tcp(127.0.0.1:1)/x", "--psp-url", sim.URL); got != 2 {
		t.Errorf("without a PSP key: %d, want 2", got)
	}
	if got := command(t, "webhooks", "replay", "--mysql-dsn", db.DSN, "evt_none"); got != -1 {
		t.Errorf("replay of an unknown event: %d", got)
	}
}
