package lab

import (
	"context"
	"fmt"
	"sync"
	"time"

	"chargeonce/internal/psp"
)

// asked is one charge that a user of the PSP client asked for.
type asked struct {
	at, took time.Duration // when, since the load began, and how long until the result
	result   psp.Result
}

// load is what came of an open load on a PSP client.
type load struct {
	calls   []asked
	waiting int           // the most that waited for a result at once
	late    time.Duration // how late the load generator was at most
}

// charge puts an open load of n charges on a client, each under a key of its own that begins with prefix.
func charge(ctx context.Context, c *psp.Client, prefix string, n int, every, patience time.Duration) (load, error) {
	var g gauge
	var mu sync.Mutex
	calls := make([]asked, 0, n)
	began := time.Now()
	late, err := paced(ctx, n, every, func(i int) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		g.enter()
		at := time.Since(began)
		r := c.Charge(ctx, chargeRequest(fmt.Sprintf("%s-%d", prefix, i)))
		took := time.Since(began) - at
		g.leave()
		mu.Lock()
		defer mu.Unlock()
		calls = append(calls, asked{at: at, took: took, result: r})
	})
	return load{calls: calls, waiting: g.most, late: late}, err
}

// chargeRequest asks for a charge that succeeds, if the PSP lets it.
func chargeRequest(key string) psp.ChargeRequest {
	return psp.ChargeRequest{Key: key, Amount: 1250, Currency: "EUR", PaymentMethod: "tok_visa", Description: "lab",
		Metadata: psp.Metadata{UserID: user, PaymentID: "pay_" + key, OrderID: key}}
}

// times are how long the calls that were asked for from one moment until before another took.
func (l load) times(from, to time.Duration) []time.Duration {
	var out []time.Duration
	for _, c := range l.calls {
		if c.at >= from && c.at < to {
			out = append(out, c.took)
		}
	}
	return out
}

// count counts the calls of which is holds.
func (l load) count(is func(asked) bool) (n int64) {
	for _, c := range l.calls {
		if is(c) {
			n++
		}
	}
	return n
}

// succeeded reports whether the call charged.
func succeeded(c asked) bool { return c.result.Kind == psp.Succeeded }

// refused reports whether the breaker kept the call from the PSP.
func refused(c asked) bool {
	return c.result.Kind == psp.NotSent && c.result.NotSent == psp.BreakerOpen
}

// sent counts the requests that went out for all calls.
func (l load) sent() (n int64) {
	for _, c := range l.calls {
		n += int64(c.result.Attempts)
	}
	return n
}

// firstSuccess is when, after a moment, the first call that was asked for after it succeeded; false if none did.
func (l load) firstSuccess(after time.Duration) (at time.Duration, ok bool) {
	for _, c := range l.calls {
		if end := c.at + c.took; succeeded(c) && c.at >= after && (!ok || end < at) {
			at, ok = end, true
		}
	}
	return at - after, ok
}

// everyOf is the interval of a rate in requests per second.
func everyOf(perSecond int) time.Duration { return time.Second / time.Duration(perSecond) }
