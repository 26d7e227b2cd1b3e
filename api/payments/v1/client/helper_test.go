package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	paymentsv1 "chargeonce/api/payments/v1"
	"chargeonce/api/payments/v1/client"
)

const apiKey client.APIKey = "sk_test_client"

// withoutCause leaves out what a library words.
var withoutCause = cmpopts.IgnoreFields(client.Error{}, "Cause")

func purchase() *paymentsv1.CreatePaymentRequest {
	return &paymentsv1.CreatePaymentRequest{OrderId: "o-1", Amount: 1250, Currency: "EUR", PaymentMethod: "tok_visa"}
}

func payment() *paymentsv1.Payment {
	return &paymentsv1.Payment{Id: "pay_1", OrderId: "o-1", Amount: 1250, Currency: "EUR",
		Status: paymentsv1.Payment_SUCCEEDED, ChargeId: "ch_1"}
}

const paymentJSON = `{"id":"pay_1","order_id":"o-1","amount":"1250","currency":"EUR","status":"SUCCEEDED","charge_id":"ch_1"}`

// roundTripper is a REST face that a test plays.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answer(code int, contentType, body string, headers ...string) *http.Response {
	resp := &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
	if contentType != "" {
		resp.Header.Set("Content-Type", contentType)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		resp.Header.Set(headers[i], headers[i+1])
	}
	return resp
}

// refusal is one row of the error table, for either face.
type refusal struct {
	reason     string
	nextAction string
	code       codes.Code
	http       int
	wait       time.Duration
	extra      map[string]string
	violations []client.Violation
}

func (r refusal) response() *http.Response {
	doc := map[string]any{"type": "/problems/" + r.reason, "title": "title", "status": r.http, "detail": "detail",
		"reason": r.reason, "next_action": r.nextAction}
	if r.wait > 0 {
		doc["retry_after_ms"] = r.wait.Milliseconds()
	}
	for name, value := range r.extra {
		doc[name] = value
	}
	var violations []map[string]string
	for _, v := range r.violations {
		violations = append(violations, map[string]string{"field": v.Field, "description": v.Description})
	}
	doc["violations"] = violations
	text, err := json.Marshal(doc)
	if err != nil {
		panic(err)
	}
	seconds := fmt.Sprint(int64((r.wait + time.Second - 1) / time.Second))
	if r.wait == 0 {
		seconds = ""
	}
	return answer(r.http, "application/problem+json", string(text), "X-Trace-Id", "t1", "Retry-After", seconds)
}

func (r refusal) status() error {
	info := &errdetails.ErrorInfo{Reason: r.reason, Domain: "chargeonce", Metadata: map[string]string{"next_action": r.nextAction}}
	for name, value := range r.extra {
		info.Metadata[name] = value
	}
	details := []protoadapt.MessageV1{info}
	if r.wait > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(r.wait)})
	}
	if len(r.violations) > 0 {
		bad := &errdetails.BadRequest{}
		for _, v := range r.violations {
			bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{Field: v.Field, Description: v.Description})
		}
		details = append(details, bad)
	}
	st, err := status.New(r.code, "detail").WithDetails(details...)
	if err != nil {
		panic(err)
	}
	return st.Err()
}

// want is what either face makes of the row; only the status differs.
func (r refusal) want(action paymentsv1.NextAction) *client.Error {
	return &client.Error{Reason: r.reason, NextAction: action, Detail: "detail", RetryAfter: r.wait, TraceID: "t1",
		DeclineCode: r.extra["decline_code"], PaymentID: r.extra["payment_id"], Violations: r.violations}
}

var inProgress = refusal{reason: "IDEMPOTENCY_KEY_IN_PROGRESS", nextAction: "retry_same_key", code: codes.Aborted, http: 409, wait: 700 * time.Millisecond}

// script answers one request after the other, and keeps what it was sent.
type script struct {
	mu      sync.Mutex
	answers []func(*http.Request) (*http.Response, error)
	keys    []string
	bodies  []string
	at      []time.Time
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	n := min(len(s.keys), len(s.answers)-1) // the last one stays
	s.keys = append(s.keys, r.Header.Get("Idempotency-Key"))
	s.bodies = append(s.bodies, string(body))
	s.at = append(s.at, time.Now())
	s.mu.Unlock()
	return s.answers[n](r)
}

func charged(*http.Request) (*http.Response, error) {
	return answer(201, "application/json", paymentJSON, "Location", "/payments/pay_1"), nil
}

func refused(r refusal) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) { return r.response(), nil }
}

// hung answers when the try's time is over, as a server does that has stopped.
func hung(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, context.Cause(r.Context())
}

func newClient(t *testing.T, cfg client.Config) *client.Client {
	t.Helper()
	cfg.APIKey = apiKey
	if cfg.HTTP != nil {
		cfg.BaseURL = "http://payments.test"
	}
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}
