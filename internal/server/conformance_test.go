package server_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	paymentsv1 "chargeonce/api/payments/v1"
	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/internal/idempotency"
	"chargeonce/internal/mysql"
	"chargeonce/internal/payment"
	"chargeonce/internal/psp"
	"chargeonce/internal/server"
)

// tableRow is a row of the design's error table, written out here once more: the code reads it from the contract.
type tableRow struct {
	reason     string
	code       codes.Code // OK: REST alone
	http       int
	nextAction string
	stored     string // what the key's row says afterwards: none, processing (released), done, parked
	// cause brings it about over one face.
	cause func(*world, face) (env *env, key string, got outcome)
}

// world is what the rows are brought about with.
type world struct {
	t *testing.T
	// main has a PSP that works, but for the orders whose names begin with a fault's.
	main *env
	// refused has a PSP that nobody listens for, crowded one with a single slot, panicky one that panics, and down no database.
	refused, crowded, panicky, down *env
	// guarded lets an order be paid once.
	guarded *env
}

const fixRequest, retrySameKey, newKey, stop = "fix_request", "retry_same_key", "new_key", "stop"

var table = []tableRow{
	{"IDEMPOTENCY_KEY_MISSING", codes.InvalidArgument, 400, fixRequest, "none", func(w *world, f face) (*env, string, outcome) {
		return w.main, "", w.main.send(f, sending{message: purchase("o")})
	}},
	{"IDEMPOTENCY_KEY_INVALID", codes.InvalidArgument, 400, fixRequest, "none", func(w *world, f face) (*env, string, outcome) {
		key := unique("double")
		return w.main, key, w.main.send(f, sending{keys: []string{key, key}, message: purchase("o")})
	}},
	{"REQUEST_INVALID", codes.InvalidArgument, 400, fixRequest, "none", func(w *world, f face) (*env, string, outcome) {
		bad := purchase("o")
		bad.Amount, bad.Currency = -1, "eur"
		return w.main.create(f, "", bad)
	}},
	{"REQUEST_TOO_LARGE", codes.OK, 413, fixRequest, "none", func(w *world, _ face) (*env, string, outcome) {
		return w.main.post(`{"description":"` + strings.Repeat("x", 1<<20) + `"}`)
	}},
	{"UNSUPPORTED_MEDIA_TYPE", codes.OK, 415, fixRequest, "none", func(w *world, _ face) (*env, string, outcome) {
		key := unique("media")
		header := w.main.header(key)
		header.Set("Content-Type", "text/plain")
		return w.main, key, w.main.rest(http.MethodPost, "/payments", header, "{}")
	}},
	{"NOT_FOUND", codes.OK, 404, fixRequest, "none", func(w *world, _ face) (*env, string, outcome) {
		return w.main, "", w.main.rest(http.MethodGet, "/nowhere", w.main.header(""), "")
	}},
	{"METHOD_NOT_ALLOWED", codes.OK, 405, fixRequest, "none", func(w *world, _ face) (*env, string, outcome) {
		return w.main, "", w.main.rest(http.MethodDelete, "/payments", w.main.header(""), "")
	}},
	{"UNAUTHENTICATED", codes.Unauthenticated, 401, fixRequest, "none", func(w *world, f face) (*env, string, outcome) {
		key := unique("stranger")
		return w.main, key, w.main.send(f, sending{apiKey: "none", keys: []string{key}, message: purchase("o")})
	}},
	{"PAYMENT_NOT_FOUND", codes.NotFound, 404, fixRequest, "none", func(w *world, f face) (*env, string, outcome) {
		return w.main, "", w.main.send(f, sending{message: &paymentsv1.GetPaymentRequest{Id: payment.NewID()}})
	}},
	{"IDEMPOTENCY_KEY_REUSED", codes.FailedPrecondition, 422, newKey, "done", func(w *world, f face) (*env, string, outcome) {
		e, key, _ := w.main.create(f, "", purchase("first"))
		other := purchase("first")
		other.Amount++
		return e, key, e.send(f, sending{keys: []string{key}, message: other})
	}},
	{"IDEMPOTENCY_KEY_IN_PROGRESS", codes.Aborted, 409, retrySameKey, "processing", func(w *world, f face) (*env, string, outcome) {
		key := unique("busy")
		w.main.hold(key, purchase("busy"))
		return w.main.create(f, key, purchase("busy"))
	}},
	{"ORDER_IN_PROGRESS", codes.Aborted, 409, retrySameKey, "none", func(w *world, f face) (*env, string, outcome) {
		order := unique("open")
		w.guarded.holdOrder(unique("first"), purchase(order))
		return w.guarded.create(f, "", purchase(order))
	}},
	{"ORDER_ALREADY_PAID", codes.FailedPrecondition, 409, stop, "none", func(w *world, f face) (*env, string, outcome) {
		w.guarded.create(f, "", purchase("paid")) // which pays it the first time
		return w.guarded.create(f, "", purchase("paid"))
	}},
	{"PAYMENT_UNDER_REVIEW", codes.FailedPrecondition, 409, stop, "parked", func(w *world, f face) (*env, string, outcome) {
		return w.main.create(f, "", purchase("wrong-amount"))
	}},
	{"CARD_DECLINED", codes.FailedPrecondition, 402, newKey, "done", func(w *world, f face) (*env, string, outcome) {
		return w.main.create(f, "", withToken("tok_insufficient_funds"))
	}},
	{"PSP_REJECTED", codes.FailedPrecondition, 402, newKey, "done", func(w *world, f face) (*env, string, outcome) {
		return w.main.create(f, "", withToken("tok_rejected"))
	}},
	{"PAYMENT_ABANDONED", codes.FailedPrecondition, 410, newKey, "done", func(w *world, f face) (*env, string, outcome) {
		key := unique("abandoned")
		w.main.cancelAtPSP(key)
		return w.main.create(f, key, purchase("abandoned"))
	}},
	{"PSP_UNAVAILABLE", codes.Unavailable, 503, retrySameKey, "processing", func(w *world, f face) (*env, string, outcome) {
		return w.refused.create(f, "", purchase("refused"))
	}},
	{"OVERLOADED", codes.ResourceExhausted, 429, retrySameKey, "processing", func(w *world, f face) (*env, string, outcome) {
		return w.crowded.create(f, "", purchase("crowded"))
	}},
	{"PSP_OUTCOME_UNKNOWN", codes.Unavailable, 503, retrySameKey, "processing", func(w *world, f face) (*env, string, outcome) {
		return w.main.create(f, "", purchase("error-500"))
	}},
	{"DEADLINE_EXCEEDED", codes.DeadlineExceeded, 504, retrySameKey, "processing", func(w *world, f face) (*env, string, outcome) {
		key := unique("hang")
		return w.main, key, w.main.send(f, sending{keys: []string{key}, timeout: 900 * time.Millisecond, message: purchase("hang")})
	}},
	{"UNAVAILABLE", codes.Unavailable, 503, retrySameKey, "none", func(w *world, f face) (*env, string, outcome) {
		return w.down.create(f, "", purchase("down"))
	}},
	{"INTERNAL", codes.Internal, 500, retrySameKey, "processing", func(w *world, f face) (*env, string, outcome) {
		return w.panicky.create(f, "", purchase("panic"))
	}},
}

// TestConformance brings every row of the error table about, over both faces, and holds what the client learns, and what is stored,
// against the table. It prints the table that it proved.
func TestConformance(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	proved := make([]string, len(table))
	t.Run("rows", func(t *testing.T) {
		for i, row := range table {
			t.Run(row.reason, func(t *testing.T) {
				t.Parallel()
				proved[i] = w.prove(t, row)
			})
		}
	})
	t.Logf("proved:\n%s", strings.Join(proved, "\n"))
}

func TestEveryReasonOfTheContractIsInTheTable(t *testing.T) {
	t.Parallel()
	var have []string
	for _, row := range table {
		have = append(have, row.reason)
	}
	var want []string
	for number, name := range paymentsv1.Reason_name {
		if number != 0 {
			want = append(want, name)
		}
	}
	slices.Sort(have)
	slices.Sort(want)
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("reasons (-contract +table):\n%s", diff)
	}
}

func (w *world) prove(t *testing.T, row tableRow) string {
	over := faces
	if row.code == codes.OK {
		over = []face{overREST}
	}
	var told []outcome
	for _, f := range over {
		e, key, got := row.cause(w, f)
		got.check(t, f, row)
		if key != "" {
			if stored := e.keyRow(key); stored != row.stored {
				t.Errorf("%s: the key's row: %s, want %s", f, stored, row.stored)
			}
		}
		if row.stored == "done" && row.reason != "IDEMPOTENCY_KEY_REUSED" && got.Replayed {
			t.Errorf("%s: the first answer says that it is a replay", f)
		}
		told = append(told, got)
	}
	if len(told) == 2 {
		// What a client learns must not depend on the face. Of the wait only that there is one: it is jittered.
		for i := range told {
			told[i] = outcome{Reason: told[i].Reason, NextAction: told[i].NextAction, Detail: told[i].Detail,
				Extra: told[i].Extra, Violations: told[i].Violations}
		}
		if diff := cmp.Diff(told[0], told[1]); diff != "" {
			t.Errorf("the faces differ (-gRPC +REST):\n%s", diff)
		}
	}
	return fmt.Sprintf("%-28s %-19s %d  %-15s key: %s", row.reason, grpcName(row.code), row.http, row.nextAction, row.stored)
}

func grpcName(c codes.Code) string {
	if c == codes.OK {
		return "–"
	}
	return c.String()
}

func (o outcome) check(t *testing.T, f face, row tableRow) {
	t.Helper()
	if o.Reason != row.reason || o.NextAction != row.nextAction {
		t.Errorf("%s: %s, %s; want %s, %s (%+v)", f, o.Reason, o.NextAction, row.reason, row.nextAction, o)
	}
	if f == overGRPC && o.Code != row.code {
		t.Errorf("gRPC: code %s, want %s", o.Code, row.code)
	}
	if f == overREST && o.HTTP != row.http {
		t.Errorf("REST: status %d, want %d", o.HTTP, row.http)
	}
	if (o.RetryAfter > 0) != (row.nextAction == retrySameKey) {
		t.Errorf("%s: told to wait %s, and to %s", f, o.RetryAfter, row.nextAction)
	}
	if o.RetryAfter > 5*time.Second {
		t.Errorf("%s: told to wait %s", f, o.RetryAfter)
	}
	if o.Detail == "" {
		t.Errorf("%s: no detail", f)
	}
}

// newWorld makes all of it.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t}
	w.main = newEnv(t, options{})
	charge := func(order string) gatewaysim.Match {
		return gatewaysim.Match{Method: http.MethodPost, Path: "/charges", Exact: true, OrderID: order}
	}
	if err := w.main.sim.SetFaults(gatewaysim.Faults{Rules: []gatewaysim.Rule{
		{Fault: gatewaysim.WrongAmount, Match: charge("wrong-amount")},
		{Fault: gatewaysim.ErrorAnswer, Status: 500, Match: charge("error-500")},
		{Fault: gatewaysim.Hang, Match: charge("hang")},
	}}); err != nil {
		t.Fatal(err)
	}
	w.refused = newEnv(t, options{db: w.main.db, sim: w.main.sim, psp: psp.Config{BaseURL: "http://" + nobody(t)}})
	w.panicky = newEnv(t, options{db: w.main.db, sim: w.main.sim, fake: panics{}})
	w.guarded = newEnv(t, options{db: w.main.db, sim: w.main.sim, onePerOrder: true})
	w.crowded = newCrowded(t, w.main.db)
	w.down = newDown(t, w.main.db, w.main.sim)
	return w
}

// newCrowded has a PSP with one slot, which is taken until the test ends, however long that takes on a busy machine.
func newCrowded(t *testing.T, db *mysql.TestDB) *env {
	t.Helper()
	e := newEnv(t, options{
		db:     db,
		server: server.Config{MaxDeadline: 10 * time.Minute},
		psp:    psp.Config{Slots: 1, SlotWait: time.Millisecond, AttemptTimeout: 9 * time.Minute, SlowAfter: 8 * time.Minute},
	})
	if err := e.sim.SetFaults(gatewaysim.Faults{Rules: []gatewaysim.Rule{{Fault: gatewaysim.Hang}}}); err != nil {
		t.Fatal(err)
	}
	var holder sync.WaitGroup
	holder.Go(func() {
		e.send(overGRPC, sending{keys: []string{unique("holder")}, timeout: 9 * time.Minute, message: purchase("holder")})
	})
	t.Cleanup(func() {
		if err := e.sim.ClearFaults(); err != nil { // which answers the hung one
			t.Error(err)
		}
		holder.Wait()
	})
	e.until("the slot is taken", func() bool { return e.sim.Stats().Hung == 1 })
	return e
}

// newDown has a database that nobody listens for.
func newDown(t *testing.T, db *mysql.TestDB, sim *gatewaysim.Running) *env {
	t.Helper()
	cfg, err := mysql.Config(db.DSN, mysql.Options{})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Addr = nobody(t)
	pool, err := mysql.OpenConfig(cfg, mysql.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e := newEnv(t, options{db: db, sim: sim, pool: pool})
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// panics is a PSP client with a fault of its own.
type panics struct{}

func (panics) Charge(context.Context, psp.ChargeRequest) psp.Result { panic("a fault of ours") }
func (panics) LookUp(context.Context, string, psp.Expect) psp.Result {
	panic("a fault of ours")
}
func (panics) Cancel(context.Context, string, psp.Expect) psp.Result { panic("a fault of ours") }

var _ payment.PSP = panics{}

// create sends a purchase under a key, a new one if none is given.
func (e *env) create(f face, key string, m *paymentsv1.CreatePaymentRequest) (*env, string, outcome) {
	e.t.Helper()
	if key == "" {
		key = unique("key")
	}
	return e, key, e.send(f, sending{keys: []string{key}, message: m})
}

// post sends a body as it is over REST.
func (e *env) post(body string) (*env, string, outcome) {
	e.t.Helper()
	key := unique("raw")
	return e, key, e.rest(http.MethodPost, "/payments", e.header(key), body)
}

func (e *env) header(key string) http.Header {
	h := http.Header{"Authorization": {"Bearer " + e.apiKey}, "Content-Type": {"application/json"}}
	if key != "" {
		mustNotBeLogged(key)
		h.Set("Idempotency-Key", key)
	}
	return h
}

func withToken(token string) *paymentsv1.CreatePaymentRequest {
	p := purchase("o-" + token)
	p.PaymentMethod = token
	return p
}

// hold claims the key for a minute, as another server would that is at work on it.
func (e *env) hold(key string, m *paymentsv1.CreatePaymentRequest) {
	e.t.Helper()
	e.claim(key, m, false)
}

// holdOrder claims the key's order along with it.
func (e *env) holdOrder(key string, m *paymentsv1.CreatePaymentRequest) {
	e.t.Helper()
	e.claim(key, m, true)
}

func (e *env) claim(key string, m *paymentsv1.CreatePaymentRequest, order bool) {
	e.t.Helper()
	_, err := idempotency.NewStore(e.db.DB).Acquire(e.t.Context(), idempotency.Claim{
		UserID: e.user, Key: e.parseKey(key), RPC: paymentsv1.PaymentService_CreatePayment_FullMethodName, Request: m,
		PaymentID: payment.NewID(), OrderID: m.GetOrderId(), Amount: m.GetAmount(), Currency: m.GetCurrency(),
		OnePerOrder: order, TTL: time.Minute,
	})
	if err != nil {
		e.t.Fatal(err)
	}
}

func (e *env) parseKey(key string) idempotency.Key {
	e.t.Helper()
	k, err := idempotency.ParseKey([]string{key})
	if err != nil {
		e.t.Fatal(err)
	}
	return k
}

// cancelAtPSP has the PSP refuse the key for good, as reconciliation does before it abandons one.
func (e *env) cancelAtPSP(key string) {
	e.t.Helper()
	client, err := psp.New(psp.Config{BaseURL: e.sim.URL, APIKey: "psp_demo_key"})
	if err != nil {
		e.t.Fatal(err)
	}
	defer client.Close()
	if res := client.Cancel(e.t.Context(), idempotency.PSPKey(e.user, e.parseKey(key)), psp.Expect{}); res.Kind != psp.Cancelled {
		e.t.Fatalf("technical cancel: %s (%v)", res.Kind, res.Err)
	}
}
