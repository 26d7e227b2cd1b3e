package psp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// LookUp asks what the PSP knows of key, and never charges. The result is a verdict on the key; StillWorking, which it does not wait
// out; NeverSeen, only by the PSP's documented 404 that names this very key; Mismatch; or Unknown or NotSent when
// the PSP did not say.
func (c *Client) LookUp(ctx context.Context, key string, want Expect) Result {
	return c.byKey(ctx, lookUpCall(key, want))
}

// Cancel makes a technical cancel: if the PSP never saw key, every later charge under it is refused, and the result is Cancelled; else
// it changes nothing, and the result is what [Client.LookUp] would say. It never moves money.
func (c *Client) Cancel(ctx context.Context, key string, want Expect) Result {
	body, err := json.Marshal(map[string]string{"idempotency_key": key})
	if err != nil {
		return unsent(err)
	}
	return c.byKey(ctx, call{op: opCancel, method: http.MethodPost, path: "charges/cancel", body: body, key: key, want: want})
}

func lookUpCall(key string, want Expect) call {
	return call{op: opLookUp, method: http.MethodGet, path: "charges", query: url.Values{"idempotency_key": {key}}, key: key, want: want}
}

func (c *Client) byKey(ctx context.Context, q call) Result {
	if err := checkKey(q.key); err != nil {
		return unsent(err)
	}
	ctx, cancel := c.bound(ctx)
	defer cancel()
	t := &trip{}
	return t.result(c.run(ctx, t, &series{call: q}))
}

// ErrNoSuchCharge: the PSP says, in its documented answer, that it has no charge of that id.
var ErrNoSuchCharge = errors.New("psp: no such charge")

// UnavailableError: the PSP gave no documented answer to a read.
type UnavailableError struct {
	// NotSent says what kept the read from leaving; it is empty if any attempt was sent.
	NotSent NotSentReason
	// RetryAfter is how long the PSP, or the breaker, asks to wait; 0 if nobody said.
	RetryAfter time.Duration
	// Err holds the errors of all attempts, as in [Result].
	Err error
}

// Error implements error.
func (e *UnavailableError) Error() string { return fmt.Sprintf("psp unavailable: %v", e.Err) }

// Unwrap gives the errors of the attempts.
func (e *UnavailableError) Unwrap() error { return e.Err }

// Get reads a charge by the PSP's id. The error is [ErrNoSuchCharge] or an [*UnavailableError]. Whose charge it is is for the
// caller to see.
func (c *Client) Get(ctx context.Context, chargeID string) (Charge, error) {
	if chargeID == "" || !isFieldValue(chargeID) {
		return Charge{}, fmt.Errorf("psp: %w: charge id: want printable ASCII characters", errInvalidRequest)
	}
	v, err := c.read(ctx, call{op: opGet, method: http.MethodGet, path: "charges/" + url.PathEscape(chargeID), chargeID: chargeID})
	switch {
	case err != nil:
		return Charge{}, err
	case v.charge == nil:
		return Charge{}, ErrNoSuchCharge
	}
	return *v.charge, nil
}

// Page is a part of the PSP's statement, in order of creation. An empty NextCursor ends it.
type Page struct {
	Charges    []Charge
	NextCursor string
}

// maxPage is the most charges that the PSP puts on one page.
const maxPage = 1000

// Statement reads one page of all charges created strictly after createdAfter (zero: from the beginning), ours or not. cursor is the
// page before's NextCursor, "" for the first; limit is 1 to 1000, or 0 for the PSP's default. The error is an
// [*UnavailableError] when the PSP did not give the page whole.
func (c *Client) Statement(ctx context.Context, createdAfter time.Time, cursor string, limit int) (Page, error) {
	if limit < 0 || limit > maxPage {
		return Page{}, fmt.Errorf("psp: %w: limit %d is not within 0 and %d", errInvalidRequest, limit, maxPage)
	}
	query := url.Values{}
	if !createdAfter.IsZero() {
		query.Set("created_after", createdAfter.UTC().Format(time.RFC3339Nano))
	}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	if limit > 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	v, err := c.read(ctx, call{op: opStatement, method: http.MethodGet, path: "charges", query: query})
	return v.page, err
}

func (c *Client) read(ctx context.Context, q call) (verdict, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	t := &trip{}
	v := c.run(ctx, t, &series{call: q})
	if v.answered && v.kind != Mismatch {
		return v, nil
	}
	r := t.result(v)
	return verdict{}, &UnavailableError{NotSent: r.NotSent, RetryAfter: r.RetryAfter, Err: r.Err}
}
