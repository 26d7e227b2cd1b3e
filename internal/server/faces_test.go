package server_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	paymentsv1 "chargeonce/api/payments/v1"
)

// A face is one of the two ways in.
type face string

const (
	overGRPC face = "gRPC"
	overREST face = "REST"
)

var faces = []face{overGRPC, overREST}

// sending is one call, whatever the face.
type sending struct {
	apiKey  string // empty: the env's; "none": none
	keys    []string
	prefer  []string
	timeout time.Duration
	message proto.Message
}

// outcome is what a client learns, over either face. What only one face has is zero over the other.
type outcome struct {
	Code       codes.Code
	Reason     string
	NextAction string
	Detail     string
	Extra      map[string]string // decline_code, payment_id
	Violations []string          // "field: description"
	RetryAfter time.Duration
	Replayed   bool
	Location   string
	Applied    string // Preference-Applied
	Payment    *paymentsv1.Payment

	HTTP   int
	Header http.Header
	Body   string
}

// send calls the method that the message is for.
func (e *env) send(f face, s sending) outcome {
	e.t.Helper()
	for _, k := range s.keys {
		mustNotBeLogged(k)
	}
	switch {
	case s.apiKey == "":
		s.apiKey = e.apiKey
	case s.apiKey == "none":
		s.apiKey = ""
	default:
		mustNotBeLogged(s.apiKey)
	}
	if f == overGRPC {
		return e.sendGRPC(s)
	}
	return e.sendREST(s)
}

func (e *env) sendGRPC(s sending) outcome {
	e.t.Helper()
	ctx := e.t.Context()
	if s.timeout != 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.timeout)
		defer cancel()
	}
	for _, k := range s.keys {
		ctx = metadata.AppendToOutgoingContext(ctx, "idempotency-key", k)
	}
	for _, p := range s.prefer {
		ctx = metadata.AppendToOutgoingContext(ctx, "prefer", p)
	}
	if s.apiKey != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+s.apiKey)
	}
	var header metadata.MD
	var resp proto.Message
	var err error
	switch m := s.message.(type) {
	case *paymentsv1.CreatePaymentRequest:
		resp, err = e.client.CreatePayment(ctx, m, grpc.Header(&header))
	case *paymentsv1.GetPaymentRequest:
		resp, err = e.client.GetPayment(ctx, m, grpc.Header(&header))
	case *paymentsv1.ListPaymentsRequest:
		resp, err = e.client.ListPayments(ctx, m, grpc.Header(&header))
	}
	out := outcome{Location: strings.Join(header.Get("location"), "|"), Applied: strings.Join(header.Get("preference-applied"), "|"), Replayed: len(header.Get("idempotent-replayed")) == 1}
	for name := range header {
		if strings.HasPrefix(name, "chargeonce-") {
			e.t.Errorf("the private header %s got out", name)
		}
	}
	if err == nil {
		out.Payment, _ = resp.(*paymentsv1.Payment)
		return out
	}
	fromStatus(status.Convert(err), &out)
	return out
}

func fromStatus(st *status.Status, out *outcome) {
	out.Code, out.Detail = st.Code(), st.Message()
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() != "chargeonce" {
				continue
			}
			out.Reason, out.NextAction = d.GetReason(), d.GetMetadata()["next_action"]
			for name, value := range d.GetMetadata() {
				if name != "next_action" {
					out.addExtra(name, value)
				}
			}
		case *errdetails.RetryInfo:
			out.RetryAfter = d.GetRetryDelay().AsDuration()
		case *errdetails.BadRequest:
			for _, v := range d.GetFieldViolations() {
				out.Violations = append(out.Violations, v.GetField()+": "+v.GetDescription())
			}
		}
	}
}

func (o *outcome) addExtra(name, value string) {
	if value == "" {
		return
	}
	if o.Extra == nil {
		o.Extra = map[string]string{}
	}
	o.Extra[name] = value
}

func (e *env) sendREST(s sending) outcome {
	e.t.Helper()
	header := http.Header{"Idempotency-Key": s.keys, "Prefer": s.prefer}
	if s.apiKey != "" {
		header.Set("Authorization", "Bearer "+s.apiKey)
	}
	if s.timeout != 0 {
		header.Set("Grpc-Timeout", strconv.FormatInt(s.timeout.Milliseconds(), 10)+"m")
	}
	switch m := s.message.(type) {
	case *paymentsv1.CreatePaymentRequest:
		header.Set("Content-Type", "application/json")
		return e.rest(http.MethodPost, "/payments", header, toJSON(e.t, m))
	case *paymentsv1.GetPaymentRequest:
		return e.rest(http.MethodGet, "/payments/"+url.PathEscape(m.GetId()), header, "")
	case *paymentsv1.ListPaymentsRequest:
		query := url.Values{}
		if m.GetPageSize() != 0 {
			query.Set("page_size", strconv.Itoa(int(m.GetPageSize())))
		}
		if m.GetPageToken() != "" {
			query.Set("page_token", m.GetPageToken())
		}
		if m.GetOrderId() != "" {
			query.Set("order_id", m.GetOrderId())
		}
		return e.rest(http.MethodGet, "/payments?"+query.Encode(), header, "")
	}
	e.t.Fatalf("no route for a %T", s.message)
	return outcome{}
}

// rest sends one REST request and reads what it means, checking what holds for every response.
func (e *env) rest(method, path string, header http.Header, body string) outcome {
	t := e.t
	t.Helper()
	resp, text := e.do(method, path, header, strings.NewReader(body))
	holdToContract(t, resp, text)
	out := outcome{HTTP: resp.StatusCode, Header: resp.Header, Body: text, Location: resp.Header.Get("Location"),
		Applied: resp.Header.Get("Preference-Applied"), Replayed: resp.Header.Get("Idempotent-Replayed") == "true"}
	for name := range resp.Header {
		if strings.HasPrefix(name, "Grpc-") || strings.HasPrefix(name, "Chargeonce-") {
			t.Errorf("the header %s got out", name)
		}
	}
	if got := resp.Header.Get("X-Content-Type-Options"); got != "nosniff" {
		t.Errorf("X-Content-Type-Options = %q", got)
	}
	if len(resp.Header.Get("X-Trace-Id")) != 32 {
		t.Errorf("X-Trace-Id = %q, want a trace id", resp.Header.Get("X-Trace-Id"))
	}
	if resp.StatusCode < 400 {
		if strings.HasPrefix(text, `{"id":`) {
			out.Payment = &paymentsv1.Payment{}
			if err := protojson.Unmarshal([]byte(text), out.Payment); err != nil {
				t.Errorf("the payment does not parse: %v", err)
			}
		}
		return out
	}
	readProblem(t, resp, text, &out)
	return out
}

// readProblem reads the document strictly, and holds the headers against it.
func readProblem(t *testing.T, resp *http.Response, text string, out *outcome) {
	t.Helper()
	var doc struct {
		Type         string `json:"type"`
		Title        string `json:"title"`
		Status       int    `json:"status"`
		Detail       string `json:"detail"`
		Reason       string `json:"reason"`
		NextAction   string `json:"next_action"`
		RetryAfterMS int64  `json:"retry_after_ms"`
		DeclineCode  string `json:"decline_code"`
		PaymentID    string `json:"payment_id"`
		Violations   []struct {
			Field       string `json:"field"`
			Description string `json:"description"`
		} `json:"violations"`
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&doc); err != nil {
		t.Fatalf("%s: no problem document: %v\n%s", resp.Status, err, text)
	}
	out.Reason, out.NextAction, out.Detail = doc.Reason, doc.NextAction, doc.Detail
	out.RetryAfter = time.Duration(doc.RetryAfterMS) * time.Millisecond
	out.addExtra("decline_code", doc.DeclineCode)
	out.addExtra("payment_id", doc.PaymentID)
	for _, v := range doc.Violations {
		out.Violations = append(out.Violations, v.Field+": "+v.Description)
	}
	if got := resp.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type = %q", got)
	}
	if doc.Status != resp.StatusCode || doc.Title == "" || doc.Type != "/problems/"+doc.Reason {
		t.Errorf("status %d: the document says status %d, title %q, type %q", resp.StatusCode, doc.Status, doc.Title, doc.Type)
	}
	wantRetry := ""
	if doc.RetryAfterMS > 0 {
		wantRetry = strconv.FormatInt((doc.RetryAfterMS+999)/1000, 10)
	}
	if got := resp.Header.Get("Retry-After"); got != wantRetry {
		t.Errorf("Retry-After = %q, want %q for %d ms", got, wantRetry, doc.RetryAfterMS)
	}
	if got := resp.Header.Get("Www-Authenticate"); (got != "") != (resp.StatusCode == http.StatusUnauthorized) {
		t.Errorf("status %d: WWW-Authenticate = %q", resp.StatusCode, got)
	}
}

// authorized returns a context for calls by the client itself.
func (e *env) authorized() context.Context {
	return metadata.AppendToOutgoingContext(e.t.Context(), "authorization", "Bearer "+e.apiKey)
}

func (e *env) withKey(ctx context.Context, key string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+e.apiKey, "idempotency-key", key)
}

func toJSON(t *testing.T, m proto.Message) string {
	t.Helper()
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
