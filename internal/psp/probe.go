package psp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Probe is what one harmless read told of the PSP and the way to it.
type Probe struct {
	// Status is the HTTP status of the answer, the PSP's or that of whatever stands before it.
	Status int
	// Accepted: the PSP took our API key, and answered by the contract.
	Accepted bool
	// Date is the answer's Date header, in whole seconds; zero if there was none.
	Date time.Time
	// Took is the time from the call to the answer's end, a connection's opening included.
	Took time.Duration
}

// Probe looks up a key that nobody uses: once, past breaker, budget and bulkhead, within the attempt's time-out. The error says
// that no answer came.
func (c *Client) Probe(ctx context.Context) (p Probe, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.AttemptTimeout)
	defer cancel()
	q := lookUpCall("doctor-"+rand.Text(), Expect{})
	req, err := c.newRequest(ctx, q)
	if err != nil {
		return p, fmt.Errorf("psp: probe: %w", err)
	}
	start := time.Now()
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return p, fmt.Errorf("psp: probe: %w", err)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return p, fmt.Errorf("psp: probe: reading the answer %d: %w", resp.StatusCode, err)
	}
	p = Probe{Status: resp.StatusCode, Took: time.Since(start)}
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		p.Date = date
	}
	v := classify(q, answer{status: resp.StatusCode, body: body, sent: true})
	p.Accepted = v.answered && v.kind == NeverSeen
	return p, nil
}
