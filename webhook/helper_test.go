package webhook_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"chargeonce/internal/idempotency"
	"chargeonce/internal/mysql"
	"chargeonce/internal/payment"
	"chargeonce/internal/psp"
	"chargeonce/internal/telemetry"
	"chargeonce/webhook"
)

const (
	secretA = telemetry.Secret("whsec_YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYQ==")
	secretB = telemetry.Secret("whsec_YmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJiYg==")
)

// renderer makes answers that a test can read.
type renderer struct{}

func (renderer) Render(r payment.Result) (idempotency.Stored, error) {
	switch {
	case r.Refusal != nil && r.Refusal.Kind == payment.Abandoned:
		return idempotency.Stored{Code: 410, Body: []byte(r.Refusal.Kind)}, nil
	case r.Refusal != nil:
		return idempotency.Stored{Code: 402, Body: []byte(r.Refusal.Kind)}, nil
	}
	return idempotency.Stored{Code: 201, Body: []byte(r.Payment.ID + " " + string(r.Payment.Status))}, nil
}

func (renderer) Refused(s idempotency.Stored) bool { return s.Code >= 400 }

// fakePSP answers a charge by a function.
type fakePSP struct {
	charge func(psp.ChargeRequest) psp.Result
}

func (f *fakePSP) Charge(_ context.Context, r psp.ChargeRequest) psp.Result { return f.charge(r) }
func (f *fakePSP) LookUp(context.Context, string, psp.Expect) psp.Result    { return psp.Result{} }
func (f *fakePSP) Cancel(context.Context, string, psp.Expect) psp.Result    { return psp.Result{} }

// env is a receiver on a database of its own.
type env struct {
	t       *testing.T
	db      *sql.DB
	dsn     string
	psp     *fakePSP
	flow    *payment.Flow
	handler *webhook.Handler
	inbox   *webhook.Inbox
}

func newEnv(t *testing.T) *env {
	t.Helper()
	db := mysql.NewTestDB(t)
	e := &env{t: t, db: db.DB, dsn: db.DSN, psp: &fakePSP{}}
	e.flow = payment.NewFlow(e.db, e.psp, renderer{}, payment.Timing{}, quiet())
	var err error
	e.handler, err = webhook.New(webhook.Config{
		DB: e.db, Flow: e.flow, Secrets: []telemetry.Secret{secretA, secretB}, MaxAttempts: 3, Logger: quiet(),
	})
	if err != nil {
		t.Fatal(err)
	}
	e.inbox = e.handler.Inbox()
	return e
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// purchase is a claimed key and what the PSP will say of it.
type purchase struct {
	user      int64
	key       idempotency.Key
	paymentID string
	chargeID  string
}

var serial atomic.Int64

func newPurchase(t *testing.T) purchase {
	t.Helper()
	n := serial.Add(1)
	key, err := idempotency.ParseKey([]string{"key-" + strconv.FormatInt(n, 10)})
	if err != nil {
		t.Fatal(err)
	}
	return purchase{user: 42, key: key, paymentID: payment.NewID(), chargeID: "ch_" + strconv.FormatInt(n, 10)}
}

// claim makes the purchase's key processing, as a request does that is at the PSP now.
func (e *env) claim() purchase {
	e.t.Helper()
	p := newPurchase(e.t)
	got, err := e.flow.Keys().Acquire(e.t.Context(), idempotency.Claim{
		UserID: p.user, Key: p.key, RPC: "test", Request: wrapperspb.String("x"), PaymentID: p.paymentID,
		OrderID: "o-1", Amount: 1999, Currency: "EUR", TTL: time.Minute,
	})
	if err != nil {
		e.t.Fatal(err)
	}
	p.paymentID = got.Lease.PaymentID
	return p
}

// create sends the purchase's request through the flow.
func (e *env) create(p purchase) (payment.Answer, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.t.Context()), 30*time.Second)
	defer cancel()
	return e.flow.Create(ctx, payment.Purchase{
		UserID: p.user, Key: p.key, RPC: "test", Request: wrapperspb.String("x"),
		OrderID: "o-1", Amount: 1999, Currency: "EUR", PaymentMethod: "tok_visa",
	})
}

// change alters a charge before it is sent.
type change func(map[string]any)

func set(name string, value any) change { return func(c map[string]any) { c[name] = value } }

func setMeta(name, value string) change {
	return func(c map[string]any) { c["metadata"].(map[string]string)[name] = value }
}

// event is the body of an event about the purchase's charge.
func (p purchase) event(t *testing.T, status string, changes ...change) []byte {
	t.Helper()
	c := map[string]any{
		"id": p.chargeID, "object": "charge", "idempotency_key": idempotency.PSPKey(p.user, p.key), "amount": 1999,
		"currency": "EUR", "status": status, "created_at": "2026-11-30T06:00:00.123Z",
		"metadata": map[string]string{"user_id": strconv.FormatInt(p.user, 10), "payment_id": p.paymentID, "order_id": "o-1"},
	}
	for _, change := range changes {
		change(c)
	}
	return body(t, "charge."+status, map[string]any{"charge": c})
}

func body(t *testing.T, eventType string, data any) []byte {
	t.Helper()
	text, err := json.Marshal(map[string]any{"type": eventType, "timestamp": "2026-11-30T06:00:00.123Z", "data": data})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// signed is a delivery with its headers.
func signed(t *testing.T, id string, at time.Time, payload []byte, secrets ...telemetry.Secret) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/webhooks/psp", bytes.NewReader(payload))
	signatures := ""
	for _, s := range secrets {
		wh, err := standardwebhooks.NewWebhook(s.Reveal())
		if err != nil {
			t.Fatal(err)
		}
		one, err := wh.Sign(id, at, payload)
		if err != nil {
			t.Fatal(err)
		}
		if signatures != "" {
			signatures += " "
		}
		signatures += one
	}
	r.Header.Set("webhook-id", id)
	r.Header.Set("webhook-timestamp", strconv.FormatInt(at.Unix(), 10))
	r.Header.Set("webhook-signature", signatures)
	return r
}

// deliver sends a well signed event and returns the status and the body.
func (e *env) deliver(id string, payload []byte) (int, string) {
	e.t.Helper()
	w := httptest.NewRecorder()
	e.handler.ServeHTTP(w, signed(e.t, id, time.Now(), payload, secretA))
	return w.Code, w.Body.String()
}

// row is what the inbox says of an event.
type row struct {
	User     int64
	State    string
	Attempts int
	Error    string
	Waits    bool
}

func (e *env) row(id string) row {
	e.t.Helper()
	var r row
	err := e.db.QueryRowContext(e.t.Context(), `SELECT user_id, state, attempts, COALESCE(last_error, ''), next_attempt_at IS NOT NULL
		FROM webhook_events WHERE event_id = ?`, []byte(id)).Scan(&r.User, &r.State, &r.Attempts, &r.Error, &r.Waits)
	if err != nil {
		e.t.Fatalf("event %s: %v", id, err)
	}
	return r
}

// payments returns "id status" of every payment of the charge.
func (e *env) payments(chargeID string) []string {
	e.t.Helper()
	rows, err := e.db.QueryContext(e.t.Context(), `SELECT CONCAT(id, ' ', status) FROM payments WHERE charge_id = ?`, chargeID)
	if err != nil {
		e.t.Fatal(err)
	}
	defer func() {
		if err := rows.Close(); err != nil {
			e.t.Error(err)
		}
	}()
	var out []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			e.t.Fatal(err)
		}
		out = append(out, s)
	}
	if err := rows.Err(); err != nil {
		e.t.Fatal(err)
	}
	return out
}

func (e *env) exec(statement string, args ...any) {
	e.t.Helper()
	if _, err := e.db.ExecContext(e.t.Context(), statement, args...); err != nil {
		e.t.Fatal(err)
	}
}

// due makes a kept event due now.
func (e *env) due(id string) {
	e.t.Helper()
	e.exec(`UPDATE webhook_events SET next_attempt_at = NOW(3) WHERE event_id = ? AND state = 'failed'`, []byte(id))
}

// retry runs RetryDue and returns its counts.
func (e *env) retry() [3]int {
	e.t.Helper()
	a, f, d, err := e.inbox.RetryDue(e.t.Context(), 100)
	if err != nil {
		e.t.Fatal(err)
	}
	return [3]int{a, f, d}
}

func (p purchase) paid(status string) []string {
	return []string{fmt.Sprintf("%s %s", p.paymentID, status)}
}
