package reconcile_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/reconcile"
)

// Each stuck key has a trace of its own, with links to the pass and to the request that left it, and names its payment.
func TestAPassAndEachOfItsKeysAreTraced(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatewaysim.Config{PendingAfter: time.Hour})
	paid, young := e.stuck(), e.stuck()
	e.charge(paid, "tok_visa")
	const left = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
	e.exec(`UPDATE idempotency_keys SET traceparent = ? WHERE payment_id = ?`, left, paid.lease.PaymentID)
	spans := tracetest.NewSpanRecorder()
	r := e.reconciler()
	r.Trace(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test"))
	if _, err := r.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	told := map[string]string{}
	var pass sdktrace.ReadOnlySpan
	traces := map[string]bool{}
	for _, s := range spans.Ended() {
		attrs := map[attribute.Key]string{}
		for _, kv := range s.Attributes() {
			attrs[kv.Key] = kv.Value.String()
		}
		traces[s.SpanContext().TraceID().String()] = true
		if s.Name() == "reconcile pass" {
			pass = s
			told["pass"] = attrs["chargeonce.outcome"] + " " + attrs["chargeonce.stuck"]
			continue
		}
		told[attrs["chargeonce.payment_id"]] = fmt.Sprint(s.Name(), " ", attrs["chargeonce.outcome"], " ", attrs["chargeonce.lease"], " ", s.Parent().IsValid())
	}
	want := map[string]string{
		"pass":                "clean 2",
		paid.lease.PaymentID:  "reconcile key charged 1 false",
		young.lease.PaymentID: "reconcile key too_young 1 false",
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	if len(traces) != 3 {
		t.Errorf("%d traces, want 3", len(traces))
	}
	links := map[string][]string{}
	for _, s := range spans.Ended() {
		for _, l := range s.Links() {
			id := attributeOf(s, "chargeonce.payment_id")
			links[id] = append(links[id], fmt.Sprintf("%s-%s", l.SpanContext.TraceID(), l.SpanContext.SpanID()))
		}
	}
	toPass := fmt.Sprintf("%s-%s", pass.SpanContext().TraceID(), pass.SpanContext().SpanID())
	wantLinks := map[string][]string{
		paid.lease.PaymentID:  {toPass, left[3:52]},
		young.lease.PaymentID: {toPass},
	}
	if diff := cmp.Diff(wantLinks, links); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
}

func attributeOf(s sdktrace.ReadOnlySpan, key attribute.Key) string {
	for _, kv := range s.Attributes() {
		if kv.Key == key {
			return kv.Value.String()
		}
	}
	return ""
}

func TestAPassThatCouldNotRunIsAnErrorInItsTrace(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatewaysim.Config{})
	spans := tracetest.NewSpanRecorder()
	r := e.reconciler()
	r.Trace(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test"))
	e.exec(`DROP TABLE idempotency_keys`)
	if _, err := r.Pass(t.Context()); err == nil {
		t.Fatal("no error")
	}
	if s := spans.Ended(); len(s) != 1 || s[0].Status().Code != codes.Error {
		t.Errorf("spans %v", s)
	}
}

// How things stand is told by the database, whichever process runs passes, and when none does.
func TestWatchTellsHowThingsStand(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatewaysim.Config{PendingAfter: time.Hour})
	reader := sdkmetric.NewManualReader()
	stop, err := reconcile.Watch(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test"), e.db)
	if err != nil {
		t.Fatal(err)
	}
	check := func(when string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, gauges(t, reader)); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", when, diff)
		}
	}
	check("nothing there, and no pass yet", "keys.oldest_stuck 0", "keys.parked 0", "keys.stuck 0")

	e.stuck() // just now: a client who was told to retry goes first
	old, young, parked := e.stuck(), e.stuck(), e.stuck()
	for p, age := range map[purchase]string{old: "5400", young: "130"} {
		e.exec(`UPDATE idempotency_keys SET attempted_at = NOW(3) - INTERVAL ? SECOND, locked_until = NOW(3) - INTERVAL 61 SECOND WHERE payment_id = ?`,
			age, p.lease.PaymentID)
	}
	e.exec(`UPDATE idempotency_keys SET status = 'parked' WHERE payment_id = ?`, parked.lease.PaymentID)
	check("before a pass", "keys.oldest_stuck 5400", "keys.parked 1", "keys.stuck 2")

	if err := e.sim.Stop(); err != nil {
		t.Fatal(err)
	}
	rep := e.pass(func(c *reconcile.Config) { c.Grace = time.Minute })
	check("after a pass whose PSP was down", "keys.oldest_stuck 5400", "keys.parked 1", "keys.stuck 2",
		"reconcile.findings 0", fmt.Sprintf("reconcile.last_pass_timestamp %d", rep.StartedAt.Unix()), "reconcile.psp_unknown 2")
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	check("after stop")
}

// gauges are lines "name value", in whole numbers.
func gauges(t *testing.T, reader *sdkmetric.ManualReader) []string {
	t.Helper()
	var data metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &data); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			name := strings.TrimPrefix(m.Name, "chargeonce.")
			switch d := m.Data.(type) {
			case metricdata.Gauge[int64]:
				lines = append(lines, fmt.Sprintf("%s %d", name, d.DataPoints[0].Value))
			case metricdata.Gauge[float64]:
				lines = append(lines, fmt.Sprintf("%s %d", name, int64(d.DataPoints[0].Value)))
			default:
				t.Fatalf("%s is a %T", m.Name, m.Data)
			}
		}
	}
	slices.Sort(lines)
	return lines
}
