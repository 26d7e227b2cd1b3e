package gatewaysim_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	gatewaysim "chargeonce/gateway-sim"
)

// patience bounds every wait of these tests.
const patience = 20 * time.Second

// caller calls a PSP the way a client would.
type caller struct {
	t    testing.TB
	url  string
	http *http.Client
}

func callerOf(t testing.TB, url string) caller {
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	return caller{t: t, url: url, http: &http.Client{Transport: transport, Timeout: patience}}
}

func start(t *testing.T, cfg gatewaysim.Config) (*gatewaysim.Running, caller) {
	t.Helper()
	psp := gatewaysim.Start(t, cfg)
	return psp, callerOf(t, psp.URL)
}

// response is an answer, or the error in place of one.
type response struct {
	status int
	header http.Header
	body   string
	err    error
}

// do sends one request. Header lines are "Name: value".
func (c caller) do(ctx context.Context, method, path, body string, headers ...string) response {
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, strings.NewReader(body))
	if err != nil {
		return response{err: err}
	}
	req.GetBody = nil // no second try behind our back
	req.Header.Set("Authorization", "Bearer "+gatewaysim.DemoAPIKey)
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Add(name, value)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return response{err: err}
	}
	text, err := io.ReadAll(resp.Body)
	if closeErr := resp.Body.Close(); err == nil {
		err = closeErr
	}
	return response{status: resp.StatusCode, header: resp.Header, body: string(text), err: err}
}

func chargeBody(method string) string {
	return fmt.Sprintf(`{"amount":1999,"currency":"EUR","payment_method":%q,"description":"a book","metadata":{"user_id":"42","order_id":"o-1"}}`, method)
}

// charge sends a POST /charges of tok_visa, or of another token.
func (c caller) charge(key string, token ...string) response {
	method := "tok_visa"
	if len(token) > 0 {
		method = token[0]
	}
	return c.do(c.t.Context(), "POST", "/charges", chargeBody(method), "Idempotency-Key: "+key)
}

func (c caller) get(path string) response { return c.do(c.t.Context(), "GET", path, "") }

func (c caller) lookUp(key string) response { return c.get("/charges?idempotency_key=" + key) }

func (c caller) cancel(key string) response {
	return c.do(c.t.Context(), "POST", "/charges/cancel", fmt.Sprintf(`{"idempotency_key":%q}`, key))
}

// want fails the test when r is not of that status.
func (r response) want(t *testing.T, status int) response {
	t.Helper()
	if r.err != nil || r.status != status {
		t.Fatalf("answer %d %s (error %v), want %d", r.status, r.body, r.err, status)
	}
	return r
}

// parse reads r's body as a T.
func parse[T any](t *testing.T, r response) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(r.body), &v); err != nil {
		t.Fatalf("answer %d %s: %v", r.status, r.body, err)
	}
	return v
}

type lookup struct {
	Result string             `json:"result"`
	Charge *gatewaysim.Charge `json:"charge"`
	Error  *gatewaysim.Error  `json:"error"`
}

func errorOf(t *testing.T, r response) gatewaysim.Error {
	t.Helper()
	return parse[struct {
		Error gatewaysim.Error `json:"error"`
	}](t, r).Error
}

func setFaults(t *testing.T, psp *gatewaysim.Running, f gatewaysim.Faults) {
	t.Helper()
	if err := psp.SetFaults(f); err != nil {
		t.Fatal(err)
	}
}

// rules returns faults that are these rules alone.
func rules(r ...gatewaysim.Rule) gatewaysim.Faults { return gatewaysim.Faults{Rules: r} }

// eventually polls until holds does.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited %v in vain: %s", patience, what)
		}
	}
}

func ledger(t *testing.T, psp *gatewaysim.Running) []gatewaysim.Charge {
	t.Helper()
	charges, err := psp.Charges()
	if err != nil {
		t.Fatal(err)
	}
	return charges
}

// received is one delivery that a receiver got.
type received struct {
	id, kind, traceparent string
	charge                gatewaysim.Charge
	header                http.Header
	body                  string
	verified              bool
	answered              int
}

// receiver is a webhook endpoint that checks signatures with the library of Standard Webhooks, not with our own code.
type receiver struct {
	url    string
	answer func(received) int // nil: 200, or 401 for a bad signature

	mu  sync.Mutex
	all []received
}

func newReceiver(t *testing.T, secret string, answer func(received) int) *receiver {
	t.Helper()
	verifier, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	rcv := &receiver{answer: answer}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("webhook body: %v", err)
		}
		got := received{
			id: r.Header.Get("webhook-id"), traceparent: r.Header.Get("traceparent"), header: r.Header, body: string(body),
			verified: verifier.Verify(body, r.Header) == nil,
		}
		var event struct {
			Type string                             `json:"type"`
			Data struct{ Charge gatewaysim.Charge } `json:"data"`
		}
		if err := json.NewDecoder(bytes.NewReader(body)).Decode(&event); err != nil {
			t.Errorf("webhook body %q: %v", body, err)
		}
		got.kind, got.charge = event.Type, event.Data.Charge
		got.answered = http.StatusOK
		if !got.verified {
			got.answered = http.StatusUnauthorized
		}
		if rcv.answer != nil {
			got.answered = rcv.answer(got)
		}
		rcv.mu.Lock()
		rcv.all = append(rcv.all, got)
		rcv.mu.Unlock()
		w.WriteHeader(got.answered)
	}))
	t.Cleanup(server.Close)
	rcv.url = server.URL
	return rcv
}

func (r *receiver) got() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]received(nil), r.all...)
}

// await waits until n deliveries have come.
func (r *receiver) await(t *testing.T, n int) []received {
	t.Helper()
	eventually(t, fmt.Sprintf("%d deliveries", n), func() bool { return len(r.got()) >= n })
	return r.got()
}
