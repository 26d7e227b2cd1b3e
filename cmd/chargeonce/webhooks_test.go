package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"chargeonce/internal/idempotency"
	"chargeonce/internal/mysql"
	"chargeonce/internal/payment"
	"chargeonce/internal/server"
	"chargeonce/webhook"
)

// An event that cannot be applied is listed with its error, replayed once its cause is mended, and is then listed no more.
func TestKeptEventsAreListedReplayedAndIgnored(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	key, err := idempotency.ParseKey([]string{"k"})
	if err != nil {
		t.Fatal(err)
	}
	claimed, err := idempotency.NewStore(db.DB).Acquire(t.Context(), idempotency.Claim{
		UserID: 42, Key: key, RPC: "test", Request: wrapperspb.String("x"), PaymentID: payment.NewID(),
		OrderID: "o-1", Amount: 1999, Currency: "EUR",
	})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	inbox := webhook.NewInbox(db.DB, payment.NewFlow(db.DB, noPSP{}, server.Renderer{}, payment.Timing{}, log), 0, log)
	receive := func(id string, amount int) {
		out, err := inbox.Receive(t.Context(), webhook.ParseEvent(id, fmt.Appendf(nil, `{"type":"charge.succeeded","data":{"charge":{
			"id":"ch_1","idempotency_key":%q,"amount":%d,"currency":"EUR","status":"succeeded","created_at":"2026-11-30T06:00:00.123Z",
			"metadata":{"user_id":"42","payment_id":%q,"order_id":"o-1"}}}}`, idempotency.PSPKey(42, key), amount, claimed.Lease.PaymentID)))
		if err != nil || out != webhook.OutcomeKept {
			t.Fatalf("%s: %s %v", id, out, err)
		}
	}
	receive("evt_wrong", 1)
	exec42 := func(statement string) {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	exec42(`UPDATE idempotency_keys SET amount = 5`)
	receive("evt_right", 1999)
	list := func() (ids []string) {
		var events []webhook.Entry
		if err := json.Unmarshal([]byte(chargeonce(t, db.DSN, "webhooks", "list", "--output", "json").succeed(t)), &events); err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			ids = append(ids, e.EventID)
		}
		return ids
	}
	if got := fmt.Sprint(list()); got != "[evt_wrong evt_right]" {
		t.Errorf("list: %s", got)
	}
	if table := chargeonce(t, db.DSN, "webhooks", "list").succeed(t); !strings.Contains(table, "differs in amount") || strings.Count(table, "\n") != 2 {
		t.Errorf("table:\n%s", table)
	}
	exec42(`UPDATE idempotency_keys SET amount = 1999`)
	replay := chargeonce(t, db.DSN, "webhooks", "replay", "evt_right", "evt_wrong")
	var exit *exec.ExitError
	if err := replay.Run(); !errors.As(err, &exit) || exit.ExitCode() != 1 || replay.stdout.String() != "evt_right applied\nevt_wrong failed\n" {
		t.Errorf("replay of both: %v\n%s", err, &replay.stdout)
	}
	chargeonce(t, db.DSN, "webhooks", "ignore", "evt_wrong").succeed(t)
	if got := list(); len(got) != 0 {
		t.Errorf("still listed: %v", got)
	}
	var paid string
	if err := db.QueryRowContext(t.Context(), `SELECT CONCAT(status, ' ', amount) FROM payments`).Scan(&paid); err != nil || paid != "succeeded 1999" {
		t.Errorf("payment: %s %v", paid, err)
	}
}
