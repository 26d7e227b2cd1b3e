package psp

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"chargeonce/internal/telemetry/metrictest"
)

func TestMetricsAndSpansTellWhatHappenedAndNeverTheKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reader := sdkmetric.NewManualReader()
		meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
		spans := tracetest.NewSpanRecorder()
		tracers := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
		psp := newFakePSP(unavailable, hang, respond(402, errorJSON("card_declined", "do_not_honor", testKey)),
			respond(200, byKeyJSON(testKey, "declined", `, "error": {"type": "card_declined", "code": "do_not_honor"}`)))
		c, err := newClient(Config{BaseURL: "http://psp.test", APIKey: "sk_test", Logger: slog.New(slog.DiscardHandler)}, parts{
			transport: psp, meter: meters.Meter(scope), tracer: tracers.Tracer(scope), jitter: noJitter, openForDraw: 0.5,
		})
		if err != nil {
			t.Fatal(err)
		}
		c.Charge(within(t, 30*time.Second), testRequest) // 503, a time-out past the slow mark, a decline and its confirmation
		psp.then(respond(500, ""))
		for range 5 {
			c.LookUp(within(t, 30*time.Second), testKey, testRequest.Expect())
		}
		c.LookUp(within(t, 30*time.Second), testKey, testRequest.Expect()) // refused
		want := []string{
			"attempt.duration{500 look_up unknown} 5",
			"attempt.duration{503 charge unknown} 1",
			"attempt.duration{charge declined} 1",
			"attempt.duration{look_up declined} 1",
			"attempt.duration{timeout charge unknown} 1",
			"breaker.state{closed} 0",
			"breaker.state{half-open} 0",
			"breaker.state{open} 1",
			"refusals{look_up breaker_open} 1",
			"retries{503 charge} 1",
			"retries{timeout charge} 1",
			"retry_budget{} 8.2",
			"slots.limit{} 64",
			"slots.used{} 0",
			"slow_calls{charge} 1",
		}
		if diff := cmp.Diff(want, metrictest.Lines(t, reader, metrictest.Options{Prefix: "chargeonce.psp.", Without: []attribute.Key{"psp.client"}})); diff != "" {
			t.Errorf("want (-), got (+):\n%s", diff)
		}

		var got []string
		for _, s := range spans.Ended() {
			text := s.Name()
			for _, kv := range s.Attributes() {
				text += " " + kv.Value.String()
			}
			if strings.Contains(text+s.Status().Description, testKey) {
				t.Errorf("a span tells the key: %s", text)
			}
			if s.SpanKind() != trace.SpanKindClient || (s.Status().Code == codes.Error) != strings.Contains(text, "unknown") && !strings.Contains(text, "not_sent") {
				t.Errorf("kind %v, status %v: %s", s.SpanKind(), s.Status(), text)
			}
			got = append(got, text)
		}
		wantSpans := []string{
			"psp charge payments charge 1 closed POST psp.test 80 503 unknown 503",
			"psp charge payments charge 2 closed POST psp.test 80 1 unknown timeout",
			"psp charge payments charge 3 closed POST psp.test 80 2 402 declined",
			"psp look_up payments look_up 1 closed GET psp.test 80 200 declined",
		}
		for range 5 {
			wantSpans = append(wantSpans, "psp look_up payments look_up 1 closed GET psp.test 80 500 unknown 500")
		}
		wantSpans = append(wantSpans, "psp look_up payments look_up 1 open GET psp.test 80 not_sent breaker_open")
		if diff := cmp.Diff(wantSpans, got); diff != "" {
			t.Errorf("want (-), got (+):\n%s", diff)
		}

		c.Close()
		for _, line := range metrictest.Lines(t, reader, metrictest.Options{Prefix: "chargeonce.psp.", Without: []attribute.Key{"psp.client"}}) {
			if strings.HasPrefix(line, "slots") || strings.HasPrefix(line, "breaker") || strings.HasPrefix(line, "retry_budget") {
				t.Errorf("after Close: %s", line)
			}
		}
	})
}

// TestMain sets the propagator that the product sets at start. It is global, so no single test may.
func TestMain(m *testing.M) {
	otel.SetTextMapPropagator(propagation.TraceContext{})
	m.Run()
}

func TestThePSPIsGivenTheSpanOfTheAttemptAndTheCallersTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		spans := tracetest.NewSpanRecorder()
		tracers := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
		var sent, timeouts []string
		record := func(next step) step {
			return func(req *http.Request) (*http.Response, error) {
				sent = append(sent, req.Header.Get("Traceparent"))
				timeouts = append(timeouts, req.Header.Get("Grpc-Timeout"))
				return next(req)
			}
		}
		c := testClient(t, Config{}, newFakePSP(record(hang), record(charged)), noJitter)
		c.observe.tracer = tracers.Tracer(scope)
		c.Charge(within(t, 9500*time.Millisecond), testRequest)
		var want []string
		for _, s := range spans.Ended() {
			want = append(want, fmt.Sprintf("00-%s-%s-01", s.SpanContext().TraceID(), s.SpanContext().SpanID()))
		}
		if diff := cmp.Diff(want, sent); diff != "" {
			t.Errorf("want (-), got (+):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"9500m", "7500m"}, timeouts); diff != "" {
			t.Errorf("want (-), got (+):\n%s", diff)
		}
	})
}
