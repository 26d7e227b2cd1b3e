package psp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"time"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
)

const testKey = "key-1"

// testRequest asks for what the bodies below answer.
var testRequest = ChargeRequest{
	Key: testKey, Amount: 1999, Currency: "EUR", PaymentMethod: "tok_visa", Description: "a book",
	Metadata: Metadata{UserID: 42, PaymentID: "pay_1", OrderID: "o-1"},
}

// chargeJSON is a charge under key, with one member replaced by each pair of name and JSON value.
func chargeJSON(key, status string, replace ...string) string {
	members := []string{
		"id", `"ch_1"`, "object", `"charge"`, "idempotency_key", `"` + key + `"`, "amount", "1999", "currency", `"EUR"`,
		"status", `"` + status + `"`, "payment_method", `"tok_visa"`, "description", `"a book"`,
		"metadata", `{"user_id": "42", "payment_id": "pay_1", "order_id": "o-1"}`, "failure_code", `""`,
		"created_at", `"2026-11-30T06:00:00.123Z"`, "updated_at", `"2026-11-30T06:00:00.123Z"`,
	}
	var parts []string
	for i := 0; i < len(members); i += 2 {
		value := members[i+1]
		for j := 0; j < len(replace); j += 2 {
			if replace[j] == members[i] {
				value = replace[j+1]
			}
		}
		parts = append(parts, fmt.Sprintf("%q: %s", members[i], value))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func errorJSON(kind, code, key string) string {
	return fmt.Sprintf(`{"error": {"type": %q, "code": %q, "message": "…", "idempotency_key": %q}}`, kind, code, key)
}

// byKeyJSON is an answer to a look-up; more is appended to the object's members.
func byKeyJSON(key, result, more string) string {
	return fmt.Sprintf(`{"idempotency_key": %q, "result": %q%s}`, key, result, more)
}

// step answers one request.
type step func(*http.Request) (*http.Response, error)

// connected tells the client, as net/http does, that the request got a connection.
func connected(req *http.Request) {
	if trace := httptrace.ContextClientTrace(req.Context()); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{})
	}
}

// respond answers at once. header holds names and values in turn.
func respond(status int, body string, header ...string) step {
	return func(req *http.Request) (*http.Response, error) {
		connected(req)
		h := http.Header{}
		for i := 0; i < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), Request: req}, nil
	}
}

// after connects, waits d, and answers with s.
func after(d time.Duration, s step) step {
	return func(req *http.Request) (*http.Response, error) {
		connected(req)
		if err := sleep(req.Context(), d); err != nil {
			return nil, err
		}
		return s(req)
	}
}

// hang takes the request and never answers.
func hang(req *http.Request) (*http.Response, error) {
	connected(req)
	<-req.Context().Done()
	return nil, context.Cause(req.Context())
}

// drop takes the request and closes the connection.
func drop(req *http.Request) (*http.Response, error) {
	connected(req)
	return nil, io.ErrUnexpectedEOF
}

// refuse lets no connection come about.
func refuse(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") }

var charged = respond(201, chargeJSON(testKey, "succeeded"))

// fakePSP is a transport that answers by a script. After its end the last step repeats.
type fakePSP struct {
	start time.Time

	mu    sync.Mutex
	steps []step
	seen  []string
}

func newFakePSP(steps ...step) *fakePSP { return &fakePSP{start: time.Now(), steps: steps} }

func (f *fakePSP) RoundTrip(req *http.Request) (*http.Response, error) {
	f.mu.Lock()
	f.seen = append(f.seen, fmt.Sprintf("%v %s", time.Since(f.start), req.Method))
	next := f.steps[0]
	if len(f.steps) > 1 {
		f.steps = f.steps[1:]
	}
	f.mu.Unlock()
	return next(req)
}

// requests lists what came, as "1.5s POST", by the time since the start.
func (f *fakePSP) requests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.seen...)
}

// then replaces what is left of the script.
func (f *fakePSP) then(steps ...step) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.steps = steps
}

// fullJitter draws the longest wait, which makes the ceilings of the waits visible.
func fullJitter(ceiling time.Duration) time.Duration { return ceiling }

// noJitter draws the shortest.
func noJitter(time.Duration) time.Duration { return 0 }

// testClient makes a client over a fake PSP. Its breaker's open time is exactly cfg.OpenFor.
func testClient(t *testing.T, cfg Config, transport http.RoundTripper, jitter func(time.Duration) time.Duration) *Client {
	t.Helper()
	cfg.BaseURL, cfg.APIKey = "http://psp.test", "sk_test"
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	c, err := newClient(cfg, parts{
		transport:   transport,
		meter:       metricnoop.NewMeterProvider().Meter(scope),
		tracer:      tracenoop.NewTracerProvider().Tracer(scope),
		jitter:      jitter,
		openForDraw: 0.5,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
