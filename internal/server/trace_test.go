package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/internal/mysql"
	"chargeonce/internal/payment"
	"chargeonce/internal/server"
	"chargeonce/internal/telemetry"
	"chargeonce/webhook"
)

// newCaller is the context of a client that traces its request.
func newCaller(t *testing.T) (context.Context, trace.SpanContext) {
	t.Helper()
	ctx, span := otel.Tracer("client").Start(t.Context(), "checkout")
	t.Cleanup(func() { span.End() })
	return ctx, span.SpanContext()
}

// tree says of each span whose child it is: lines "parent > name outcome", marked ! when it failed. One that is no child, and has a link
// in place of a parent, has ~ in place of >.
func tree(spans []sdktrace.ReadOnlySpan) []string {
	names := map[trace.SpanID]string{}
	for _, s := range spans {
		names[s.SpanContext().SpanID()] = s.Name()
	}
	var lines []string
	for _, s := range spans {
		line := names[s.Parent().SpanID()] + " > " + s.Name()
		if len(s.Links()) == 1 && !s.Parent().IsValid() {
			line = names[s.Links()[0].SpanContext.SpanID()] + " ~ " + s.Name()
		}
		if v := attr(s, "chargeonce.outcome"); v != "" {
			line += " " + v
		}
		if s.Status().Code == codes.Error {
			line += " !"
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

func attr(s sdktrace.ReadOnlySpan, name attribute.Key) string {
	for _, kv := range s.Attributes() {
		if kv.Key == name {
			return kv.Value.String()
		}
	}
	return ""
}

// withWebhooks is an env to which its PSP delivers its events.
func withWebhooks(t *testing.T) *env {
	t.Helper()
	db := mysql.NewTestDB(t)
	flow := payment.NewFlow(db.DB, nil, server.Renderer{}, payment.Timing{}, suiteLogger)
	h, err := webhook.New(webhook.Config{DB: db.DB, Flow: flow, Logger: suiteLogger,
		Secrets: []telemetry.Secret{telemetry.Secret(gatewaysim.DemoWebhookSecret())}})
	if err != nil {
		t.Fatal(err)
	}
	e := newEnv(t, options{db: db, server: server.Config{Webhook: h}})
	if err := e.sim.SetWebhookURL("http://" + e.addrs.REST + "/webhooks/psp"); err != nil {
		t.Fatal(err)
	}
	return e
}

// spansOf waits until n spans of a trace, or linked to it, were exported.
func (e *env) spansOf(id trace.TraceID, n int) []sdktrace.ReadOnlySpan {
	e.t.Helper()
	e.until("the spans are exported", func() bool { return len(exported.of(id)) >= n })
	return exported.of(id)
}

// payTraced sends a purchase within ctx's trace and returns the trace id that the answer names.
func (e *env) payTraced(ctx context.Context, f face, key, orderID string) string {
	e.t.Helper()
	mustNotBeLogged(key)
	req := purchase(orderID)
	if f == overGRPC {
		md := metadata.Pairs("authorization", "Bearer "+e.apiKey, "idempotency-key", key)
		otel.GetTextMapPropagator().Inject(ctx, mdCarrier(md))
		var header metadata.MD
		if _, err := e.client.CreatePayment(metadata.NewOutgoingContext(ctx, md), req, grpc.Header(&header)); err != nil {
			e.t.Fatal(err)
		}
		return strings.Join(header.Get("x-trace-id"), " ")
	}
	header := http.Header{"Authorization": {"Bearer " + e.apiKey}, "Idempotency-Key": {key}, "Content-Type": {"application/json"}}
	otel.GetTextMapPropagator().Inject(ctx, propagation.HeaderCarrier(header))
	body, err := json.Marshal(map[string]any{"order_id": orderID, "amount": 1250, "currency": "EUR", "payment_method": "tok_visa"})
	if err != nil {
		e.t.Fatal(err)
	}
	resp, text := e.do(http.MethodPost, "/payments", header, bytes.NewReader(body))
	if resp.StatusCode != http.StatusCreated {
		e.t.Fatalf("%d %s", resp.StatusCode, text)
	}
	return strings.Join(resp.Header.Values("X-Trace-Id"), " ")
}

// mdCarrier carries a trace over gRPC.
type mdCarrier metadata.MD

func (c mdCarrier) Get(name string) string { return strings.Join(metadata.MD(c).Get(name), ",") }
func (c mdCarrier) Set(name, value string) { metadata.MD(c).Set(name, value) }
func (c mdCarrier) Keys() []string         { return nil }

// One trace, the client's, goes through the face, the claim, every attempt at the PSP and the finish; the PSP's event is linked to the
// attempt that charged. Its id is in the answer, in every line of log, at the PSP and in the key's row.
func TestOnePurchaseIsOneTraceFromTheClientToTheWebhook(t *testing.T) {
	t.Parallel()
	for f, name := range map[face]string{overREST: "POST /payments", overGRPC: "payments.v1.PaymentService/CreatePayment"} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			e := withWebhooks(t)
			ctx, caller := newCaller(t)
			id := caller.TraceID()
			if err := e.sim.SetFaults(gatewaysim.Faults{Rules: []gatewaysim.Rule{{Fault: gatewaysim.ErrorAnswer, Status: 503, Count: 1}}}); err != nil {
				t.Fatal(err)
			}
			key, order := unique("traced"), unique("o")
			if got := e.payTraced(ctx, f, key, order); got != id.String() {
				t.Errorf("the answer names the trace %s, want %s", got, id)
			}
			spans := e.spansOf(id, 7)
			want := []string{
				" > " + name + " answered",
				name + " > purchase answered",
				"psp charge ~ POST /webhooks/psp applied",
				"purchase > claim new",
				"purchase > finish charged",
				"purchase > psp charge succeeded",
				"purchase > psp charge unknown !",
			}
			if diff := cmp.Diff(want, tree(spans)); diff != "" {
				t.Errorf("spans (-want +got):\n%s", diff)
			}

			var atPSP, attempts []string
			for _, r := range e.sim.Requests() {
				if r.Traceparent != "" {
					atPSP = append(atPSP, r.Traceparent)
				}
			}
			var paymentID string
			for _, s := range spans {
				if s.Name() == "psp charge" {
					attempts = append(attempts, "00-"+id.String()+"-"+s.SpanContext().SpanID().String()+"-01")
				}
				if s.Name() == name {
					paymentID = attr(s, "chargeonce.payment_id")
				}
			}
			if diff := cmp.Diff(attempts, atPSP); diff != "" {
				t.Errorf("attempts (-), the PSP's view (+):\n%s", diff)
			}
			if n := e.count(`SELECT COUNT(*) FROM idempotency_keys WHERE payment_id = ? AND traceparent LIKE CONCAT('00-', ?, '-%')`, paymentID, id.String()); n != 1 {
				t.Errorf("%d rows name the payment %q of the span, and the trace", n, paymentID)
			}
			line := logged(t, id.String(), "request")
			delete(line, "duration_ms")
			delete(line, "time")
			delete(line, "key")
			if diff := cmp.Diff(map[string]any{"level": "INFO", "msg": "request", "method": "CreatePayment", "face": strings.ToLower(string(f)), "code": "OK",
				"outcome": "answered", "user_id": float64(e.user), "payment_id": paymentID, "replayed": false, "trace_id": id.String()}, line); diff != "" {
				t.Errorf("log line (-want +got):\n%s", diff)
			}
			logged(t, id.String(), "psp retry")
		})
	}
}

// logged returns the line that a trace has with a message.
func logged(t *testing.T, traceID, message string) map[string]any {
	t.Helper()
	line := findLogged(t, traceID, message)
	if line == nil {
		t.Errorf("the trace has no line %q", message)
	}
	return line
}

// findLogged is logged for a line that may not be there yet: nil then.
func findLogged(t *testing.T, traceID, message string) map[string]any {
	t.Helper()
	suite.mu.Lock()
	defer suite.mu.Unlock()
	for text := range strings.Lines(suite.log.String()) {
		if !strings.Contains(text, traceID) {
			continue
		}
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		if line["msg"] == message && line["trace_id"] == traceID {
			return line
		}
	}
	return nil
}

// A request that comes without a trace gets one, and one that is refused before it is a call is traced too.
func TestEveryAnswerNamesATraceThatHasItsSpan(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	resp, _ := e.do(http.MethodPost, "/payments", nil, strings.NewReader("{}"))
	id, err := trace.TraceIDFromHex(resp.Header.Get("X-Trace-Id"))
	if err != nil {
		t.Fatal(err)
	}
	spans := e.spansOf(id, 1)
	got := []string{spans[0].Name(), attr(spans[0], "http.route"), attr(spans[0], "http.response.status_code"),
		attr(spans[0], "chargeonce.outcome"), attr(spans[0], "chargeonce.reason")}
	if diff := cmp.Diff([]string{"POST /payments", "/payments", "401", "refused", "UNAUTHENTICATED"}, got); diff != "" {
		t.Errorf("span (-want +got):\n%s", diff)
	}
}

// Whatever a caller puts where, none of it is in a span, a line of log or a metric; and odd methods and paths make no new series.
func TestNothingThatACallerWritesIsTold(t *testing.T) {
	t.Parallel()
	const marker = "4929123412341234" // in the form of a card number
	e := withWebhooks(t)
	send := func(method, path, contentType, body string, header http.Header) trace.TraceID {
		t.Helper()
		if header == nil {
			header = http.Header{}
		}
		header.Set("Authorization", "Bearer "+e.apiKey)
		header.Set("Content-Type", contentType)
		resp, text := e.do(method, path, header, io.NopCloser(strings.NewReader(body)))
		id, err := trace.TraceIDFromHex(resp.Header.Get("X-Trace-Id"))
		if err != nil {
			t.Errorf("%s %s: %v: %s", method, path, err, text)
		}
		return id
	}
	const js = "application/json"
	buy := func(field string) string {
		return strings.Replace(`{"order_id":"o-1","amount":1250,"currency":"EUR","payment_method":"tok_visa","description":""}`,
			`"`+field+`":"`, `"`+field+`":"`+marker, 1)
	}
	var ids []trace.TraceID
	for n, r := range []struct{ method, path, contentType, body string }{
		{"POST", "/payments", js, buy("order_id")},
		{"POST", "/payments", js, buy("currency")},
		{"POST", "/payments", js, buy("payment_method")},
		{"POST", "/payments", js, buy("description")},
		{"POST", "/payments", js, `{"` + marker + `":1}`},
		{"POST", "/payments", js, marker},
		{"POST", "/payments", "application/" + marker, "{}"},
		{"POST", "/payments?" + marker + "=1", js, buy("x")},
		{"GET", "/payments/" + marker, js, ""},
		{"GET", "/payments?order_id=" + marker, js, ""},
		{"GET", "/payments?page_token=" + marker, js, ""},
		{"GET", "/" + marker, js, ""},
		{"M" + marker, "/payments", js, ""},
		{"POST", "/webhooks/psp", js, marker},
		{"POST", "/webhooks/psp?" + marker, js, marker},
		{"GET", "/docs/" + marker, js, ""},
		{"GET", "/problems/" + marker, js, ""},
	} {
		ids = append(ids, send(r.method, r.path, r.contentType, r.body, http.Header{
			"Idempotency-Key": {unique("marked-" + marker + "-")}, "User-Agent": {marker}, "Referer": {marker}, "Prefer": {"wait=0; x=" + marker},
			"Traceparent": {"00-" + strings.Repeat("a", 30) + string("0123456789abcdef"[n%16]) + string("12"[n/16]) + "-00f067aa0ba902b7-01"}, "Tracestate": {"v=" + marker},
			"Webhook-Id": {marker}, "Webhook-Timestamp": {marker}, "Webhook-Signature": {marker}}))
	}
	// The same over gRPC: a key that is refused, and a method that there is not.
	md := metadata.Pairs("authorization", "Bearer "+e.apiKey, "idempotency-key", "a "+marker, "tracestate", "v="+marker, "user-agent", marker)
	if _, err := e.client.CreatePayment(metadata.NewOutgoingContext(t.Context(), md), purchase(marker)); err == nil {
		t.Error("a key with a space was taken")
	}
	for _, method := range []string{"/payments.v1.PaymentService/Get" + marker, "/" + marker + "/Get"} {
		if err := e.conn.Invoke(metadata.NewOutgoingContext(t.Context(), md), method, purchase("o"), purchase("o")); err == nil {
			t.Errorf("%s: no error", method)
		}
	}
	for _, id := range ids {
		e.spansOf(id, 1)
	}
	exported.mu.Lock()
	for _, s := range exported.spans {
		if text := tell(s); strings.Contains(text, marker) || strings.Contains(text, e.apiKey) {
			t.Errorf("a span tells it: %s", text)
		}
	}
	exported.mu.Unlock()
	suite.mu.Lock()
	for line := range strings.Lines(suite.log.String()) {
		if strings.Contains(line, marker) || strings.Contains(line, e.apiKey) {
			t.Errorf("the log tells it: %s", line)
		}
	}
	suite.mu.Unlock()
	_, text := e.get("/openapi.json", nil) // the last request: all before are measured
	if text == "" {
		t.Error("no answer")
	}
	if text := scrape(t); strings.Contains(text, marker) || strings.Contains(text, e.apiKey) {
		t.Error("a metric tells it")
	}
}
