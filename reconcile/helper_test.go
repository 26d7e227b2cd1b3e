package reconcile_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"

	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/internal/idempotency"
	"chargeonce/internal/mysql"
	"chargeonce/internal/payment"
	"chargeonce/internal/psp"
	"chargeonce/internal/telemetry"
	"chargeonce/reconcile"
)

// renderer makes answers that a test can read.
type renderer struct{}

func (renderer) Render(r payment.Result) (idempotency.Stored, error) {
	switch {
	case r.Refusal != nil && r.Refusal.Kind == payment.Abandoned:
		return idempotency.Stored{Code: 410, Body: []byte(r.Refusal.Kind)}, nil
	case r.Refusal != nil:
		return idempotency.Stored{Code: 402, Body: []byte(r.Refusal.Kind)}, nil
	case r.Payment.Status == payment.Pending:
		return idempotency.Stored{Code: 202, Body: []byte("pending")}, nil
	}
	return idempotency.Stored{Code: 201, Body: []byte(r.Payment.Status)}, nil
}

func (renderer) Refused(s idempotency.Stored) bool { return s.Code >= 400 }

// inbox is an inbox whose counts a test sets. The real one has tests of its own.
type inbox struct {
	retried, purged         atomic.Int64
	waiting, dead, charged  int
	applied, failed, events int
	err                     error // of RetryDue

	mu sync.Mutex // guards events: several passes purge at once
}

func (i *inbox) RetryDue(context.Context, int) (applied, failed, dead int, err error) {
	i.retried.Add(1)
	return i.applied, i.failed, 0, i.err
}

func (i *inbox) Backlog(context.Context) (failed, dead, chargedAfterRefusal int, err error) {
	return i.waiting, i.dead, i.charged, nil
}

func (i *inbox) Purge(_ context.Context, _ time.Duration, limit int) (int, error) {
	i.purged.Add(1)
	i.mu.Lock()
	defer i.mu.Unlock()
	n := min(limit, i.events)
	i.events -= n
	return n, nil
}

// env is a database and a simulated PSP of a test's own.
type env struct {
	t     *testing.T
	db    *sql.DB
	sim   *gatewaysim.Running
	psp   *psp.Client // the requests' client
	own   *psp.Client // reconciliation's
	keys  *idempotency.Store
	inbox *inbox
}

func newEnv(t *testing.T, c gatewaysim.Config) *env {
	t.Helper()
	e := &env{t: t, db: mysql.NewTestDB(t).DB, sim: gatewaysim.Start(t, c), inbox: &inbox{}}
	e.keys = idempotency.NewStore(e.db)
	e.psp, e.own = e.client(e.sim.URL), e.client(e.sim.URL)
	return e
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func (e *env) client(url string) *psp.Client {
	e.t.Helper()
	c, err := psp.New(psp.Config{
		BaseURL: url, APIKey: telemetry.Secret(e.sim.APIKey), Logger: quiet(),
		BackoffBase: time.Millisecond, BackoffCap: 2 * time.Millisecond,
	})
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(c.Close)
	return c
}

// config is one whose waits are short.
func (e *env) config(changes ...func(*reconcile.Config)) reconcile.Config {
	c := reconcile.Config{
		DB: e.db, PSP: e.own, Renderer: renderer{}, Inbox: e.inbox, Logger: quiet(),
		Grace: time.Millisecond, Quiet: time.Microsecond, PendingAfter: time.Microsecond, Rate: 10_000,
	}
	for _, change := range changes {
		change(&c)
	}
	return c
}

func (e *env) reconciler(changes ...func(*reconcile.Config)) *reconcile.Reconciler {
	e.t.Helper()
	r, err := reconcile.New(e.config(changes...))
	if err != nil {
		e.t.Fatal(err)
	}
	return r
}

func (e *env) pass(changes ...func(*reconcile.Config)) reconcile.Report {
	e.t.Helper()
	e.nextMillisecond()
	rep, err := e.reconciler(changes...).Pass(e.t.Context())
	if err != nil {
		e.t.Fatal(err)
	}
	return rep
}

// nextMillisecond waits until the database's clock, which a pass reads in milliseconds, is past all that was done before.
func (e *env) nextMillisecond() {
	e.t.Helper()
	past := time.Now().Add(time.Millisecond)
	eventually(e.t, func() bool {
		var now time.Time
		if err := e.db.QueryRowContext(e.t.Context(), `SELECT NOW(3)`).Scan(&now); err != nil {
			e.t.Fatal(err)
		}
		return now.After(past)
	})
}

// purchase is a key and what it buys.
type purchase struct {
	lease idempotency.Lease
}

func (p purchase) pspKey() string { return idempotency.PSPKey(p.lease.UserID, p.lease.Key) }

func (p purchase) request(token string) psp.ChargeRequest {
	l := p.lease
	return psp.ChargeRequest{
		Key: p.pspKey(), Amount: l.Amount, Currency: l.Currency, PaymentMethod: token,
		Metadata: psp.Metadata{UserID: l.UserID, PaymentID: l.PaymentID, OrderID: l.OrderID},
	}
}

var serial atomic.Int64

// stuck makes a key whose request died, its lease over for a second.
func (e *env) stuck() purchase {
	e.t.Helper()
	n := serial.Add(1)
	key, err := idempotency.ParseKey([]string{"key-" + strconv.FormatInt(n, 10)})
	if err != nil {
		e.t.Fatal(err)
	}
	got, err := e.keys.Acquire(e.t.Context(), idempotency.Claim{
		UserID: 42, Key: key, RPC: "test", Request: wrapperspb.String("x"), PaymentID: payment.NewID(),
		OrderID: fmt.Sprintf("o-%d", n), Amount: 1999, Currency: "EUR", TTL: -time.Second,
	})
	if err != nil {
		e.t.Fatal(err)
	}
	return purchase{got.Lease}
}

// charge sends the purchase's charge to the PSP, as its request did before it died.
func (e *env) charge(p purchase, token string) psp.Result {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), 10*time.Second)
	defer cancel()
	return e.psp.Charge(ctx, p.request(token))
}

// paid makes a purchase that went through: charged, and finished by a pass.
func (e *env) paid() (purchase, psp.Charge) {
	e.t.Helper()
	p := e.stuck()
	res := e.charge(p, "tok_visa")
	if rep := e.pass(); rep.Stuck.Charged != 1 {
		e.t.Fatalf("the purchase was not finished: %+v", rep)
	}
	return p, *res.Charge
}

// old makes the purchase's last attempt two hours old.
func (e *env) old(p purchase) {
	e.t.Helper()
	e.exec(`UPDATE idempotency_keys SET attempted_at = NOW(3) - INTERVAL 2 HOUR WHERE payment_id = ?`, p.lease.PaymentID)
}

// expire ends the lease that is on the purchase's key, as time would.
func (e *env) expire(p purchase) {
	e.t.Helper()
	e.exec(`UPDATE idempotency_keys SET locked_until = NOW(3) - INTERVAL 1 SECOND WHERE payment_id = ?`, p.lease.PaymentID)
}

func (e *env) exec(statement string, args ...any) {
	e.t.Helper()
	if _, err := e.db.ExecContext(e.t.Context(), statement, args...); err != nil {
		e.t.Fatal(err)
	}
}

// read runs a query of one row and one column of text.
func (e *env) read(query string, args ...any) string {
	e.t.Helper()
	var s sql.NullString
	err := e.db.QueryRowContext(e.t.Context(), query, args...).Scan(&s)
	if errors.Is(err, sql.ErrNoRows) {
		return "none"
	}
	if err != nil {
		e.t.Fatalf("%s: %v", query, err)
	}
	return s.String
}

// state is what our tables say of a purchase: the key's status, code and body, and its payments.
func (e *env) state(p purchase) string {
	e.t.Helper()
	return e.read(`SELECT CONCAT_WS(' ', status, response_code, CONVERT(response_body USING utf8mb4)) FROM idempotency_keys WHERE payment_id = ?`, p.lease.PaymentID) +
		" / " + e.payment(p)
}

func (e *env) payment(p purchase) string {
	e.t.Helper()
	return e.read(`SELECT GROUP_CONCAT(status, ' ', amount) FROM payments WHERE id = ?`, p.lease.PaymentID)
}

// post calls the PSP with a body and decodes nothing: for what the client has no method for.
func (e *env) post(path string, header map[string]string, body any) {
	e.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		e.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(e.t.Context(), http.MethodPost, e.sim.URL+path, bytes.NewReader(text))
	if err != nil {
		e.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+e.sim.APIKey)
	r.Header.Set("Content-Type", "application/json")
	for name, value := range header {
		r.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		e.t.Fatal(err)
	}
	answer, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil || res.StatusCode >= 300 {
		e.t.Fatalf("POST %s: %d %s %v", path, res.StatusCode, answer, err)
	}
}

func (e *env) refund(chargeID string) {
	e.t.Helper()
	e.post("/charges/"+chargeID+"/refund", nil, struct{}{})
}

// calls counts the requests that the PSP got on a route.
func (e *env) calls(method string) int {
	n := 0
	for _, r := range e.sim.Requests() {
		if r.Method == method {
			n++
		}
	}
	return n
}
