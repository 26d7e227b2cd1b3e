package psp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
)

// A body over its bound is not read, and the answer is Unknown. A page of the statement holds up to 1000 charges.
const (
	maxBody     = 64 << 10
	maxPageBody = 4 << 20
)

// call is one operation on the PSP: what to send, and what the answer must be about.
type call struct {
	op     operation
	method string
	path   string // below the base URL, escaped
	query  url.Values
	body   []byte

	key      string // the idempotency key asked about, if any
	want     Expect // what a charge under key must look like
	chargeID string // the charge asked for, if any
}

// differs says in what ch is not the charge that q is about, or nil. The payment id is not compared: after a lost row the same
// purchase has another one.
func (q call) differs(ch Charge) error {
	if q.op == opGet {
		if ch.ID != q.chargeID {
			return fmt.Errorf("the PSP answered with charge %q", ch.ID)
		}
		return nil
	}
	switch m := ch.Metadata; {
	case ch.IdempotencyKey != q.key:
		return errors.New("the PSP's charge names another key")
	case ch.Amount != q.want.Amount || ch.Currency != q.want.Currency:
		return fmt.Errorf("the PSP's charge is over %d %s, not %d %s", ch.Amount, ch.Currency, q.want.Amount, q.want.Currency)
	case m.UserID != 0 && m.UserID != q.want.UserID:
		return fmt.Errorf("the PSP's charge is user %d's, not %d's", m.UserID, q.want.UserID)
	case m.OrderID != "" && m.OrderID != q.want.OrderID:
		return fmt.Errorf("the PSP's charge is for order %q, not %q", m.OrderID, q.want.OrderID)
	}
	return nil
}

// exchange sends q once and reads the answer, within the attempt's time-out and ctx.
func (c *Client) exchange(ctx context.Context, q call) answer {
	attempt, cancel := context.WithTimeout(ctx, c.cfg.AttemptTimeout)
	defer cancel()
	var sent atomic.Bool
	// From here on the request has a connection, and its bytes may leave at any moment. Before, none has.
	attempt = httptrace.WithClientTrace(attempt, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { sent.Store(true) },
	})
	req, err := c.newRequest(attempt, q)
	if err != nil {
		return answer{broken: unsendable, err: err}
	}
	if deadline, ok := ctx.Deadline(); ok { // The caller's, not the attempt's: it is what the PSP's work is still worth.
		req.Header.Set("Grpc-Timeout", grpcTimeout(time.Until(deadline)))
	}
	a, err := c.roundTrip(req, q)
	a.sent = sent.Load()
	if err != nil {
		a.broken, a.err = c.whyBroken(ctx, attempt, err)
	}
	return a
}

// newRequest builds a request that net/http sends at most once.
func (c *Client) newRequest(ctx context.Context, q call) (*http.Request, error) {
	target := *c.base
	target.RawQuery = q.query.Encode()
	req, err := http.NewRequestWithContext(ctx, q.method, target.JoinPath(q.path).String(), nil)
	if err != nil {
		return nil, err
	}
	// When a warm connection drops, net/http sends a request again on its own if that has an Idempotency-Key or a safe method,
	// and either no body or a GetBody. One layer retries, and it is not that one: so there is a body, even an
	// empty one, and no GetBody.
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(q.body)), int64(len(q.body))
	req.Header.Set("Authorization", "Bearer "+c.cfg.APIKey.Reveal())
	req.Header.Set("Accept", "application/json")
	if len(q.body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	if q.op == opCharge {
		req.Header.Set("Idempotency-Key", q.key)
	}
	otel.GetTextMapPropagator().Inject(ctx, propagation.HeaderCarrier(req.Header))
	return req, nil
}

// roundTrip uses the transport itself, not an http.Client: nothing follows redirects or keeps cookies, and errors don't
// repeat the URL, which holds the key in a look-up.
func (c *Client) roundTrip(req *http.Request, q call) (a answer, err error) {
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return answer{}, err
	}
	defer func() {
		if closeErr := resp.Body.Close(); err == nil && closeErr != nil {
			err = fmt.Errorf("closing the answer: %w", closeErr)
		}
	}()
	limit := maxBody
	if q.op == opStatement {
		limit = maxPageBody
	}
	a = answer{status: resp.StatusCode, retryAfter: parseRetryAfter(resp.Header, time.Now())}
	a.body, err = io.ReadAll(io.LimitReader(resp.Body, int64(limit)+1))
	if err != nil {
		return a, fmt.Errorf("reading the answer %d: %w", resp.StatusCode, err)
	}
	if len(a.body) > limit {
		a.body, a.err = nil, fmt.Errorf("body over %d bytes", limit)
	}
	return a, nil
}

// whyBroken tells whose time ran out, if any did. It keeps the text of err and cuts its chain, in which the attempt's or the
// dial's own time-out would read as context.DeadlineExceeded: that means the caller's deadline here, and nothing else.
func (c *Client) whyBroken(ctx, attempt context.Context, err error) (failing, error) {
	deadline, hasDeadline := ctx.Deadline()
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return callerLeft, fmt.Errorf("the caller left: %w", context.Canceled)
	case ctx.Err() != nil, hasDeadline && !time.Now().Before(deadline):
		return callerDeadline, fmt.Errorf("the caller's time is over: %w", context.DeadlineExceeded)
	case attempt.Err() != nil:
		return attemptTimeout, fmt.Errorf("no answer within %v", c.cfg.AttemptTimeout)
	}
	return connection, errors.New(err.Error())
}

// grpcTimeout writes d in gRPC's form: at most eight digits and a unit.
func grpcTimeout(d time.Duration) string {
	if ms := max(1, d.Milliseconds()); ms < 100_000_000 {
		return strconv.FormatInt(ms, 10) + "m"
	}
	return strconv.FormatInt(min(int64(d/time.Second), 99_999_999), 10) + "S"
}

// longestRetryAfter bounds what is believed of a Retry-After.
const longestRetryAfter = 24 * time.Hour

// parseRetryAfter reads Retry-After (RFC 9110, section 10.2.3): seconds, or an HTTP date, which is taken against the answer's own
// Date, as the two clocks may differ. It is 0 for none, a malformed one, or one in the past.
func parseRetryAfter(h http.Header, now time.Time) time.Duration {
	value := h.Get("Retry-After")
	if value == "" {
		return 0
	}
	if seconds, err := strconv.ParseUint(value, 10, 64); err == nil {
		return time.Duration(min(seconds, uint64(longestRetryAfter/time.Second))) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return min(max(0, at.Sub(now)), longestRetryAfter)
}
