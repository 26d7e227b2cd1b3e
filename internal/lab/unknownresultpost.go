package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"chargeonce/api/payments/v1/client"
	"chargeonce/internal/rig"
)

// poster sends purchases as the plainest of clients does: each request once, and nobody is told how long it waits.
type poster struct {
	way    http.RoundTripper
	url    string // of POST /payments
	apiKey client.APIKey
}

// poster makes one that reaches the server by a way; nil is a pool of connections of its own.
func (s *site) poster(at *rig.Server, way http.RoundTripper) *poster {
	if way == nil {
		way = &http.Transport{IdleConnTimeout: time.Minute}
	}
	return &poster{way: way, url: at.URL() + "/payments", apiKey: s.apiKey}
}

// purchaseBody is a purchase that succeeds, as JSON.
func purchaseBody(order string, amount int64) string {
	return fmt.Sprintf(`{"order_id":%q,"amount":%d,"currency":"EUR","payment_method":"tok_visa","description":"lab"}`, order, amount)
}

// reply is what came of one request.
type reply struct {
	status   int // 0: no answer within the time
	replayed bool
	body     []byte
	took     time.Duration
}

// String words it for a table. The status alone says which error it is.
func (r reply) String() string {
	words := fmt.Sprint(r.status)
	switch {
	case r.status == 0:
		words = "time-out"
	case r.replayed:
		words += " replayed"
	}
	return words
}

// paymentID reads the payment's id from a reply that is a payment; empty for any other.
func (r reply) paymentID() (string, error) {
	var p struct{ ID string }
	if r.status/100 != 2 {
		return "", nil
	}
	if err := json.Unmarshal(r.body, &p); err != nil {
		return "", fmt.Errorf("the payment %q: %w", r.body, err)
	}
	return p.ID, nil
}

// post sends one request and waits for its answer until ctx ends. No key sends none. header holds further fields, as "Name: value".
func (p *poster) post(ctx context.Context, key client.Key, body string, header ...string) (r reply, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, strings.NewReader(body))
	if err != nil {
		return r, fmt.Errorf("post a purchase: %w", err)
	}
	// With a GetBody, net/http would send a request that has an Idempotency-Key again by itself when a warm connection drops.
	req.GetBody = nil
	req.Header.Set("Authorization", "Bearer "+string(p.apiKey))
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", string(key))
	}
	for _, field := range header {
		name, value, _ := strings.Cut(field, ": ")
		req.Header.Set(name, value)
	}
	began := time.Now()
	resp, err := p.way.RoundTrip(req)
	if err == nil {
		r.body, err = io.ReadAll(io.LimitReader(resp.Body, maxAdminPage))
		err = errors.Join(err, resp.Body.Close())
	}
	r.took = time.Since(began)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return reply{took: r.took}, nil // an outcome like any other: nobody knows what the server has done
	case err != nil:
		return r, fmt.Errorf("post a purchase: %w", err)
	}
	r.status, r.replayed = resp.StatusCode, resp.Header.Get("Idempotent-Replayed") == "true"
	return r, nil
}

// postWithin is post with a time-out.
func (p *poster) postWithin(ctx context.Context, d time.Duration, key client.Key, body string, header ...string) (reply, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return p.post(ctx, key, body, header...)
}
