package psp

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// attempt makes one attempt at q, the nth of its series: breaker, bulkhead, exchange, verdict.
func (c *Client) attempt(ctx context.Context, t *trip, q call, n int) verdict {
	ctx, span := c.observe.startAttempt(ctx, q, n, c.breaker.current())
	defer span.End()
	v := c.guarded(ctx, t, q)
	endAttempt(span, v)
	t.note(q.op, n, v.err)
	return v
}

// guarded makes the exchange if breaker and bulkhead let it.
func (c *Client) guarded(ctx context.Context, t *trip, q call) verdict {
	if reason, err := c.notWorthStarting(ctx); err != nil {
		return refused(reason, err, 0)
	}
	permit, retryAfter, err := c.breaker.allow()
	if err != nil {
		c.observe.refused(ctx, q.op, BreakerOpen)
		return refused(BreakerOpen, err, retryAfter)
	}
	// Neutral unless something else was reported: a full bulkhead, or a panic, must not keep the place of the one probe.
	defer permit.report(neutral)
	if err := c.bulkhead.acquire(ctx); err != nil {
		reason := BulkheadFull
		if errors.Is(err, context.Canceled) {
			reason = CallerLeft
		}
		c.observe.refused(ctx, q.op, reason)
		return refused(reason, err, 0)
	}
	defer c.bulkhead.release()

	start := time.Now()
	slow := permit.failAfter(c.cfg.SlowAfter, func() { c.observe.slow(ctx, q.op) })
	defer slow.Stop()
	a := c.exchange(ctx, q)
	answered(ctx, a)
	v := classify(q, a)
	permit.report(v.effect)
	if v.answered && v.kind != StillWorking {
		c.budget.earn()
	}
	if a.sent {
		t.requests++
	}
	c.observe.attempted(ctx, q.op, v, time.Since(start))
	return v
}

// notWorthStarting says why an attempt would be in vain: the caller left, or has too little time.
func (c *Client) notWorthStarting(ctx context.Context) (NotSentReason, error) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return CallerLeft, fmt.Errorf("the caller left: %w", context.Canceled)
	}
	if !c.fits(ctx, 0) {
		return DeadlineTooLow, fmt.Errorf("less than %v left: %w", c.cfg.MinAttempt, context.DeadlineExceeded)
	}
	return "", nil
}

// fits reports whether a wait of d leaves ctx enough time for another attempt.
func (c *Client) fits(ctx context.Context, d time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return !ok || time.Until(deadline)-d >= c.cfg.MinAttempt
}

// refused is the verdict on an attempt that never left.
func refused(reason NotSentReason, err error, retryAfter time.Duration) verdict {
	return verdict{kind: NotSent, notSent: reason, reason: string(reason), retryAfter: retryAfter, err: err}
}
