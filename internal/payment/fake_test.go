package payment_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"chargeonce/internal/idempotency"
	"chargeonce/internal/mysql"
	"chargeonce/internal/payment"
	"chargeonce/internal/psp"
)

const user = 42

// quiet drops what would be said from goroutines that may outlive their test.
var quiet = slog.New(slog.DiscardHandler)

// ledger is a PSP in memory that keeps the contract: one key, one charge, and its verdicts are remembered. What a test wants to go
// wrong it puts into around, which runs with every charge and sees the truth.
type ledger struct {
	mu      sync.Mutex
	charges map[string]psp.Charge
	refused map[string]psp.Result
	posts   int
	cancels int
	status  string // of new charges; "" is succeeded

	// around, if set, is called in place of the charge. truth makes the charge (once per key) and returns the PSP's answer.
	around func(ctx context.Context, n int, truth func() psp.Result) psp.Result
	// lookUp, if set, answers look-ups.
	lookUp func(truth psp.Result) psp.Result
}

func newLedger() *ledger {
	return &ledger{charges: map[string]psp.Charge{}, refused: map[string]psp.Result{}}
}

func (l *ledger) Charge(ctx context.Context, r psp.ChargeRequest) psp.Result {
	l.mu.Lock()
	l.posts++
	n := l.posts
	l.mu.Unlock()
	truth := func() psp.Result { return l.charge(r) }
	if l.around != nil {
		return l.around(ctx, n, truth)
	}
	return truth()
}

func (l *ledger) charge(r psp.ChargeRequest) psp.Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	if res, ok := l.refused[r.Key]; ok {
		return res
	}
	c, ok := l.charges[r.Key]
	if !ok {
		if r.PaymentMethod == "tok_declined" {
			l.refused[r.Key] = psp.Result{Kind: psp.Declined, Code: "do_not_honor"}
			return l.refused[r.Key]
		}
		c = psp.Charge{
			ID: "ch_" + r.Metadata.OrderID, IdempotencyKey: r.Key, Amount: r.Amount, Currency: r.Currency,
			Status: l.status, Metadata: r.Metadata,
		}
		if c.Status == "" {
			c.Status = "succeeded"
		}
		l.charges[r.Key] = c
	}
	return resultOf(c)
}

func resultOf(c psp.Charge) psp.Result {
	kinds := map[string]psp.Kind{"pending": psp.Pending, "failed": psp.Failed, "succeeded": psp.Succeeded, "canceled": psp.Voided, "refunded": psp.Refunded}
	return psp.Result{Kind: kinds[c.Status], Charge: &c}
}

func (l *ledger) LookUp(_ context.Context, key string, _ psp.Expect) psp.Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	res := psp.Result{Kind: psp.NeverSeen}
	if c, ok := l.charges[key]; ok {
		res = resultOf(c)
	} else if r, ok := l.refused[key]; ok {
		res = r
	}
	if l.lookUp != nil {
		return l.lookUp(res)
	}
	return res
}

func (l *ledger) Cancel(_ context.Context, key string, _ psp.Expect) psp.Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancels++
	if c, ok := l.charges[key]; ok {
		return resultOf(c)
	}
	if _, ok := l.refused[key]; !ok {
		l.refused[key] = psp.Result{Kind: psp.Cancelled}
	}
	return l.refused[key]
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.charges)
}

// words renders answers as a reader of a failed test wants to see them.
type words struct{}

func (words) Render(r payment.Result) (idempotency.Stored, error) {
	if r.Refusal != nil {
		return idempotency.Stored{Code: 402, Body: fmt.Appendf(nil, "%s %s", r.Refusal.Kind, r.Refusal.Code)}, nil
	}
	body, err := json.Marshal(r.Payment)
	code := 201
	if r.Payment.Status == payment.Pending {
		code = 202
	}
	return idempotency.Stored{Code: code, Body: body}, err
}

func (words) Refused(s idempotency.Stored) bool { return s.Code == 402 }

func testCtx(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func newFlow(t *testing.T, db *mysql.TestDB, p payment.PSP) *payment.Flow {
	t.Helper()
	return flowOn(t, db.DSN, p, payment.Timing{})
}

// flowOn opens a pool of its own, as another server would.
func flowOn(t *testing.T, dsn string, p payment.PSP, timing payment.Timing) *payment.Flow {
	t.Helper()
	db, err := mysql.Open(dsn, mysql.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return inForm(t, payment.NewFlow(db, p, words{}, timing, slog.New(slog.NewTextHandler(t.Output(), nil))))
}

func purchase(t *testing.T, key string) payment.Purchase {
	t.Helper()
	k, err := idempotency.ParseKey([]string{key})
	if err != nil {
		t.Fatal(err)
	}
	req, err := structpb.NewStruct(map[string]any{"order": "o-" + key, "amount": "1999"})
	if err != nil {
		t.Fatal(err)
	}
	return payment.Purchase{
		UserID: user, Key: k, RPC: "test.Pay", Request: req,
		OrderID: "o-" + key, Amount: 1999, Currency: "EUR", PaymentMethod: "tok_visa",
	}
}

func exec(t *testing.T, db *mysql.TestDB, statement string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(testCtx(t), statement, args...); err != nil {
		t.Fatal(err)
	}
}

func expire(t *testing.T, db *mysql.TestDB, key string) {
	t.Helper()
	exec(t, db, `UPDATE idempotency_keys SET locked_until = NOW(3) WHERE idem_key = ?`, []byte(key))
}

func rows(t *testing.T, db *mysql.TestDB) []payment.Payment {
	t.Helper()
	list, err := payment.List(testCtx(t), db.DB, user, "", "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func key(t *testing.T, db *mysql.TestDB, k string) idempotency.Record {
	t.Helper()
	row, err := idempotency.NewStore(db.DB).Read(testCtx(t), user, purchase(t, k).Key)
	if err != nil {
		t.Fatal(err)
	}
	return row
}

func paymentIn(t *testing.T, a payment.Answer) payment.Payment {
	t.Helper()
	var p payment.Payment
	if err := json.Unmarshal(a.Stored.Body, &p); err != nil {
		t.Fatalf("%s: %v", a.Stored.Body, err)
	}
	return p
}
