package payment_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"chargeonce/internal/mysql"
	"chargeonce/internal/payment"
	"chargeonce/internal/psp"
)

// watched is a flow whose metrics and spans can be read.
type watched struct {
	*payment.Flow
	meters *sdkmetric.ManualReader
	spans  *tracetest.SpanRecorder
	// ids are the payment ids that purchases were told.
	mu  sync.Mutex
	ids []string
}

func watch(t *testing.T, db *mysql.TestDB, p payment.PSP) *watched {
	t.Helper()
	w := &watched{Flow: newFlow(t, db, p), meters: sdkmetric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	payment.Observe(w.Flow, sdkmetric.NewMeterProvider(sdkmetric.WithReader(w.meters)).Meter("test"),
		sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(w.spans)).Tracer("test"))
	return w
}

func (w *watched) create(t *testing.T, p payment.Purchase) {
	t.Helper()
	p.Claimed = func(id string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ids = append(w.ids, id)
	}
	if _, err := w.Create(testCtx(t), p); err != nil {
		t.Logf("%s: %v", p.OrderID, err)
	}
}

// counts are lines "name{outcome} value".
func (w *watched) counts(t *testing.T) []string {
	t.Helper()
	var data metricdata.ResourceMetrics
	if err := w.meters.Collect(t.Context(), &data); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			sum, ok := m.Data.(metricdata.Sum[int64])
			if !ok {
				t.Fatalf("%s is a %T", m.Name, m.Data)
			}
			for _, p := range sum.DataPoints {
				lines = append(lines, fmt.Sprintf("%s{%s} %d", strings.TrimPrefix(m.Name, "chargeonce."), p.Attributes.Encoded(attribute.DefaultEncoder()), p.Value))
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// told are the spans as lines "parent/name outcome lease", marked ! when they failed.
func (w *watched) told() []string {
	names := map[string]string{}
	for _, s := range w.spans.Ended() {
		names[s.SpanContext().SpanID().String()] = s.Name()
	}
	var lines []string
	for _, s := range w.spans.Ended() {
		line := names[s.Parent().SpanID().String()] + "/" + s.Name()
		for _, name := range []attribute.Key{"chargeonce.outcome", "chargeonce.lease"} {
			for _, kv := range s.Attributes() {
				if kv.Key == name {
					line += " " + kv.Value.String()
				}
			}
		}
		if s.Status().Code == codes.Error {
			line += " !"
		}
		lines = append(lines, line)
	}
	return lines
}

func TestClaimsAndFinishesAreCountedAndTracedByWhatTheyCameTo(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	bank := newLedger()
	w := watch(t, db, bank)
	step := func(what string, around func(context.Context, int, func() psp.Result) psp.Result, p payment.Purchase, want ...string) {
		t.Helper()
		bank.around = around
		before := len(w.told())
		w.create(t, p)
		if diff := cmp.Diff(want, w.told()[before:]); diff != "" {
			t.Errorf("%s: spans (-want +got):\n%s", what, diff)
		}
	}
	answer := func(r psp.Result) func(context.Context, int, func() psp.Result) psp.Result {
		return func(context.Context, int, func() psp.Result) psp.Result { return r }
	}
	step("a charge", nil, purchase(t, "observed-1"),
		"purchase/claim new 1", "purchase/finish charged 1", "/purchase answered")
	step("its replay", nil, purchase(t, "observed-1"),
		"purchase/claim replay 1", "/purchase replayed")
	other := purchase(t, "observed-1")
	other.RPC = "test.Other"
	step("its key with another request", nil, other, "purchase/claim reused", "/purchase reused")
	declined := purchase(t, "observed-2")
	declined.PaymentMethod = "tok_declined"
	step("a decline", nil, declined,
		"purchase/claim new 1", "purchase/finish declined 1", "/purchase answered")
	step("no answer", answer(psp.Result{Kind: psp.Unknown}), purchase(t, "observed-3"),
		"purchase/claim new 1", "purchase/release released 1", "/purchase outcome_unknown")
	step("its retry", nil, purchase(t, "observed-3"),
		"purchase/claim taken_over 2", "purchase/finish charged 2", "/purchase answered")
	step("pending", answer(psp.Result{Kind: psp.Pending, Charge: &psp.Charge{ID: "ch_p", Amount: 1999, Currency: "EUR", Status: "pending"}}),
		purchase(t, "observed-4"), "purchase/claim new 1", "purchase/finish pending 1", "/purchase answered")
	step("rejected", answer(psp.Result{Kind: psp.Rejected}), purchase(t, "observed-5"),
		"purchase/claim new 1", "purchase/finish rejected 1", "/purchase answered")
	step("cancelled", answer(psp.Result{Kind: psp.Cancelled}), purchase(t, "observed-6"),
		"purchase/claim new 1", "purchase/finish abandoned 1", "/purchase answered")
	step("another's charge", answer(psp.Result{Kind: psp.Mismatch}), purchase(t, "observed-7"),
		"purchase/claim new 1", "purchase/finish parked 1 !", "/purchase parked")
	step("a key that is parked", nil, purchase(t, "observed-7"),
		"purchase/claim parked 1", "/purchase parked")
	step("a holder that was taken over", func(_ context.Context, _ int, truth func() psp.Result) psp.Result {
		exec(t, db, `UPDATE idempotency_keys SET lease = lease + 1, locked_until = NOW(3) + INTERVAL 1 HOUR WHERE idem_key = 'observed-8'`)
		return truth()
	}, purchase(t, "observed-8"), "purchase/claim new 1", "purchase/finish fenced 1", "/purchase in_progress")
	step("a key in progress", nil, purchase(t, "observed-8"),
		"purchase/claim in_progress 2", "/purchase in_progress")

	want := []string{
		"claims{outcome=fenced} 1", "claims{outcome=in_progress} 1", "claims{outcome=new} 8",
		"claims{outcome=parked} 1", "claims{outcome=replay} 1", "claims{outcome=reused} 1",
		"claims{outcome=taken_over} 1",
		"finishes{outcome=abandoned} 1", "finishes{outcome=charged} 2", "finishes{outcome=declined} 1",
		"finishes{outcome=fenced} 1", "finishes{outcome=parked} 1", "finishes{outcome=pending} 1",
		"finishes{outcome=rejected} 1", "finishes{outcome=released} 1",
	}
	if diff := cmp.Diff(want, w.counts(t)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	for _, s := range w.spans.Ended() {
		if text := fmt.Sprint(s.Name(), s.Attributes(), s.Status(), s.Events()); strings.Contains(text, "observed") {
			t.Errorf("a span tells a key: %s", text)
		}
	}
}

func TestWithTheDatabaseAwayClaimsFail(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	w := watch(t, db, newLedger())
	exec(t, db, `DROP TABLE idempotency_keys`)
	w.create(t, purchase(t, "observed"))
	if diff := cmp.Diff([]string{"purchase/claim failed !", "/purchase failed !"}, w.told()); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"claims{outcome=failed} 1"}, w.counts(t)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

// A claim that met another key of its order, and a client that left, are told as such.
func TestAnOrderThatIsOpenAndAClientThatLeft(t *testing.T) {
	t.Parallel()
	w := watch(t, mysql.NewTestDB(t), newLedger())
	w.OnePaymentPerOrder = true
	w.create(t, purchase(t, "first"))
	second := purchase(t, "second")
	second.OrderID = "o-first"
	w.create(t, second)

	ctx, leave := context.WithTimeout(t.Context(), time.Minute)
	left := purchase(t, "third")
	left.Claimed = func(string) { leave() }
	var undecided *payment.UndecidedError
	if _, err := w.Create(ctx, left); !errors.As(err, &undecided) || undecided.Why != payment.ClientLeft {
		t.Errorf("the client left: %v", err)
	}
	want := []string{
		"purchase/claim new 1", "purchase/finish charged 1", "/purchase answered",
		"purchase/claim order_open", "/purchase order_paid",
		"purchase/claim new 1", "purchase/release released 1", "/purchase client_left",
	}
	if diff := cmp.Diff(want, w.told()); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
}

// Whatever a claim finds, the log can name the purchase by its payment id, which stays the first claim's.
func TestAPurchaseIsToldItsPaymentID(t *testing.T) {
	t.Parallel()
	w := watch(t, mysql.NewTestDB(t), newLedger())
	w.create(t, purchase(t, "k"))
	w.create(t, purchase(t, "k"))
	if len(w.ids) != 2 || w.ids[0] != w.ids[1] || !strings.HasPrefix(w.ids[0], "pay_") {
		t.Errorf("told %q", w.ids)
	}
}
