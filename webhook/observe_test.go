package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"chargeonce/internal/mysql"
	"chargeonce/internal/telemetry"
)

// One line a delivery, by which an event is found from its charge's trace and the other way about; the span says the same. Nothing is
// told of what is not signed.
func TestALineAndASpanTellOfEachDelivery(t *testing.T) {
	t.Parallel()
	const (
		secret  = telemetry.Secret("whsec_YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYQ==")
		traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
		card    = "4242424242424242"
	)
	var log bytes.Buffer
	h, err := New(Config{DB: mysql.NewTestDB(t).DB, Flow: applies{}, Secrets: []telemetry.Secret{secret},
		Logger: slog.New(slog.NewJSONHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	signer, err := standardwebhooks.NewWebhook(secret.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	spans := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")
	deliver := func(id, body string, tamper bool) {
		now := time.Now()
		signature, err := signer.Sign(id, now, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if tamper {
			body += card
		}
		ctx, span := tracer.Start(t.Context(), "POST /webhooks/psp")
		defer span.End()
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(body))
		r.Header.Set("webhook-id", id)
		r.Header.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
		r.Header.Set("webhook-signature", signature)
		r.Header.Set("traceparent", "00-"+traceID+"-00f067aa0ba902b7-01")
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	const event = `{"type":"charge.succeeded","data":{"charge":{"id":"ch_1","amount":%d,"currency":"EUR","status":"succeeded",` +
		`"metadata":{"user_id":"1","payment_id":"pay_1","order_id":"` + card + `"}}}}`
	deliver("evt_1", fmt.Sprintf(event, 5), false)
	deliver("evt_1", fmt.Sprintf(event, 6), false)
	deliver("evt_2", fmt.Sprintf(event, 5), true)

	known := map[string]string{"type": "charge.succeeded", "charge_id": "ch_1", "payment_id": "pay_1", "charge_trace_id": traceID, "event_id": "evt_1"}
	want := []map[string]string{{"outcome": "applied"}, {"outcome": "conflict"}, {"outcome": "signature"}}
	for name, value := range known {
		want[0][name], want[1][name] = value, value
	}
	var lines, attrs []map[string]string
	for line := range strings.Lines(log.String()) {
		var all map[string]any
		if err := json.Unmarshal([]byte(line), &all); err != nil {
			t.Fatal(err)
		}
		told := map[string]string{"outcome": fmt.Sprint(all["outcome"])}
		for name := range known {
			if value, ok := all[name].(string); ok {
				told[name] = value
			}
		}
		lines = append(lines, told)
	}
	for _, s := range spans.Ended() {
		told := map[string]string{}
		for _, kv := range s.Attributes() {
			told[strings.TrimPrefix(string(kv.Key), "chargeonce.")] = kv.Value.String()
		}
		attrs = append(attrs, told)
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, attrs); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	for _, bad := range []string{card, secret.Reveal()} {
		if strings.Contains(log.String()+fmt.Sprint(attrs), bad) {
			t.Errorf("%q is told:\n%s", bad, log.String())
		}
	}
}
