package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	paymentsv1 "chargeonce/api/payments/v1"
)

// maxBody bounds what is read of an answer; a full page of payments is far below.
const maxBody = 1 << 20

// overREST speaks to the REST face. It uses a RoundTripper, not an http.Client: a redirect is no answer to a purchase.
type overREST struct {
	base *url.URL
	auth string
	http http.RoundTripper
	own  *http.Transport // nil when the round tripper is the caller's
}

func newREST(cfg Config) (face, error) {
	base, err := url.Parse(cfg.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("base URL: %w", err)
	}
	if base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		return nil, fmt.Errorf("base URL %q: want http:// or https:// and a host", base.Redacted())
	}
	r := &overREST{base: base, auth: "Bearer " + string(cfg.APIKey), http: cfg.HTTP}
	if r.http == nil {
		r.own = newTransport()
		r.http = r.own
	}
	return r, nil
}

// newTransport makes the pool of connections. HTTP/1.1 only: over HTTP/2 net/http sends a refused stream's request again.
func newTransport() *http.Transport {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Transport{
		Protocols:              &protocols,
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout:    5 * time.Second,
		MaxIdleConnsPerHost:    16,
		IdleConnTimeout:        time.Minute,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

func (r *overREST) close() error {
	if r.own != nil {
		r.own.CloseIdleConnections()
	}
	return nil
}

func (r *overREST) create(ctx context.Context, intent Intent) (*Outcome, *Error) {
	body, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(intent.Request)
	if err != nil {
		return nil, unsendable(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.base.JoinPath("payments").String(), bytes.NewReader(body))
	if err != nil {
		return nil, unsendable(err)
	}
	// With a GetBody, net/http would send a request that has an Idempotency-Key again by itself when a warm connection drops.
	req.GetBody = nil
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", intent.Key.wire())
	p := &paymentsv1.Payment{}
	resp, failed := r.do(req, p)
	if failed != nil {
		return nil, failed
	}
	if p.GetId() == "" {
		return nil, foreign(resp, errors.New("the answer is no payment"))
	}
	h := resp.Header
	return &Outcome{
		Payment: p, HTTPStatus: resp.StatusCode, Location: h.Get("Location"),
		Replayed: h.Get("Idempotent-Replayed") == "true", TraceID: h.Get("X-Trace-Id"),
	}, nil
}

func (r *overREST) get(ctx context.Context, in *paymentsv1.GetPaymentRequest) (*paymentsv1.Payment, *Error) {
	id := in.GetId()
	if id == "" || id == "." || id == ".." {
		return nil, unsendable(fmt.Errorf("%q is no payment's id", id)) // as a path, it would be another one
	}
	p := &paymentsv1.Payment{}
	return p, r.read(ctx, r.base.JoinPath("payments", url.PathEscape(id)), p)
}

func (r *overREST) list(ctx context.Context, in *paymentsv1.ListPaymentsRequest) (*paymentsv1.ListPaymentsResponse, *Error) {
	query := url.Values{}
	if in.GetPageSize() != 0 {
		query.Set("page_size", strconv.FormatInt(int64(in.GetPageSize()), 10))
	}
	if in.GetPageToken() != "" {
		query.Set("page_token", in.GetPageToken())
	}
	if in.GetOrderId() != "" {
		query.Set("order_id", in.GetOrderId())
	}
	u := r.base.JoinPath("payments")
	u.RawQuery = query.Encode()
	page := &paymentsv1.ListPaymentsResponse{}
	return page, r.read(ctx, u, page)
}

func (r *overREST) read(ctx context.Context, u *url.URL, into proto.Message) *Error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return unsendable(err)
	}
	_, failed := r.do(req, into)
	return failed
}

// do makes one exchange and reads a success into the message. The response comes back with its body read and closed.
func (r *overREST) do(req *http.Request, into proto.Message) (*http.Response, *Error) {
	req.Header.Set("Authorization", r.auth)
	req.Header.Set("Accept", "application/json, application/problem+json")
	inject(req.Context(), req.Header.Set)
	if deadline, ok := req.Context().Deadline(); ok {
		req.Header.Set("Grpc-Timeout", grpcTimeout(time.Until(deadline)))
	}
	resp, err := r.http.RoundTrip(req)
	if err != nil {
		return nil, unheard(err)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return resp, foreign(resp, err)
	}
	if len(body) > maxBody {
		return resp, foreign(resp, fmt.Errorf("the answer is longer than %d bytes", maxBody))
	}
	if resp.StatusCode/100 != 2 {
		return resp, problem(resp, body)
	}
	if media(resp) != "application/json" {
		return resp, foreign(resp, fmt.Errorf("the answer is %q, not JSON", media(resp)))
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, into); err != nil {
		return resp, foreign(resp, err)
	}
	return resp, nil
}

// grpcTimeout says how long the service has: a little less than is left, so that its answer is here in time.
func grpcTimeout(left time.Duration) string {
	way := min(left/10, 200*time.Millisecond)
	const most = 99_999_999 // eight digits are allowed
	return strconv.FormatInt(min(max(1, (left-way).Milliseconds()), most), 10) + "m"
}

// problemDocument is what is read of an RFC 9457 document of the service's.
type problemDocument struct {
	Reason       string `json:"reason"`
	NextAction   string `json:"next_action"`
	Detail       string `json:"detail"`
	RetryAfterMS int64  `json:"retry_after_ms"`
	DeclineCode  string `json:"decline_code"`
	PaymentID    string `json:"payment_id"`
	Violations   []struct {
		Field       string `json:"field"`
		Description string `json:"description"`
	} `json:"violations"`
}

// problem reads an answer that is not 2xx. One that is no problem document with a reason was not written by the service.
func problem(resp *http.Response, body []byte) *Error {
	var d problemDocument
	if media(resp) != "application/problem+json" {
		return foreign(resp, nil)
	}
	if err := json.Unmarshal(body, &d); err != nil {
		return foreign(resp, err)
	}
	if d.Reason == "" {
		return foreign(resp, nil)
	}
	e := foreign(resp, nil)
	e.Reason, e.NextAction, e.Detail = d.Reason, nextAction(d.NextAction), d.Detail
	e.DeclineCode, e.PaymentID = d.DeclineCode, d.PaymentID
	if 0 < d.RetryAfterMS && d.RetryAfterMS <= longest.Milliseconds() {
		e.RetryAfter = time.Duration(d.RetryAfterMS) * time.Millisecond // the header has whole seconds only
	}
	for _, v := range d.Violations {
		e.Violations = append(e.Violations, Violation{v.Field, v.Description})
	}
	return e
}

// foreign is the error of an answer that tells nothing of the purchase.
func foreign(resp *http.Response, cause error) *Error {
	e := unheard(cause)
	e.HTTPStatus, e.TraceID = resp.StatusCode, resp.Header.Get("X-Trace-Id")
	e.Replayed = resp.Header.Get("Idempotent-Replayed") == "true"
	e.RetryAfter = retryAfter(resp.Header)
	return e
}

// unsendable is the error of a request that can't be put in HTTP's form.
func unsendable(err error) *Error {
	return &Error{NextAction: paymentsv1.NextAction_FIX_REQUEST, Cause: err}
}

// longest is the longest wait that is taken for one; it is past every bound on waits, and far below what overflows.
const longest = 30 * 24 * time.Hour

// retryAfter reads the header (RFC 9110 §10.2.3): seconds, or an HTTP date, which is held against the answer's own Date.
func retryAfter(h http.Header) time.Duration {
	value := h.Get("Retry-After")
	if seconds, err := strconv.ParseInt(value, 10, 64); err == nil {
		return time.Duration(min(max(0, seconds), int64(longest/time.Second))) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return min(max(0, at.Sub(now)), longest)
}

func media(resp *http.Response) string {
	m, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return m
}
