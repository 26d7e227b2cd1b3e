package psp

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// series counts the attempts at one operation.
type series struct {
	call call
	made int
}

// run makes attempts at s.call until an answer is one that another attempt would not better, or another one is not allowed.
func (c *Client) run(ctx context.Context, t *trip, s *series) verdict {
	for {
		s.made++
		v := c.attempt(ctx, t, s.call, s.made)
		if !v.retry || !c.again(ctx, t, s, v) {
			return v
		}
	}
}

// again decides on another attempt after v and waits for it. It gives up at once, without the wait, when the attempts or the
// budget are spent or the wait would cross the deadline.
func (c *Client) again(ctx context.Context, t *trip, s *series, v verdict) bool {
	wait := c.backoff(s.made-1, v.retryAfter)
	var why string
	switch {
	case s.made >= c.cfg.MaxAttempts:
		why = "attempts"
	case !c.fits(ctx, wait):
		why = "deadline"
	case !c.budget.take():
		why = "budget"
	}
	attrs := []slog.Attr{slog.String("client", c.cfg.Name), slog.String("operation", string(s.call.op)),
		slog.Int("attempt", s.made), slog.Duration("wait", wait), slog.String("reason", v.reason)}
	if why != "" {
		c.observe.gaveUp(ctx, s.call.op, why)
		c.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "psp call given up", append(attrs, slog.String("spent", why))...)
		t.note(s.call.op, s.made, fmt.Errorf("gave up: %s", spent[why]))
		return false
	}
	c.observe.retried(ctx, s.call.op, v.reason)
	c.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "psp retry", attrs...)
	if err := sleep(ctx, wait); err != nil {
		t.note(s.call.op, s.made, err)
		return false
	}
	return true
}

// spent words what kept a call from another attempt.
var spent = map[string]string{
	"attempts": "no attempt left",
	"deadline": "the next wait would cross the deadline",
	"budget":   "the retry budget is spent",
}

// backoff is the wait before retry n, from 0: full jitter, uniform in [0, min(cap, base·2ⁿ)], on top of what the PSP asked
// for, so that all whom it told the same second do not come in the same second.
func (c *Client) backoff(n int, retryAfter time.Duration) time.Duration {
	ceiling := c.cfg.BackoffBase
	for ; n > 0 && ceiling < c.cfg.BackoffCap; n-- {
		ceiling *= 2
	}
	return retryAfter + c.jitter(min(ceiling, c.cfg.BackoffCap))
}

// sleep waits for d, or until ctx ends, which is its error.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the next attempt: %w", ctx.Err())
	}
}

// trip gathers what happened under one call of the Client's: all attempts at all operations that it took.
type trip struct {
	requests int // those of which a byte may have gone out
	errs     []error
}

func (t *trip) note(op operation, n int, err error) {
	if err != nil {
		t.errs = append(t.errs, fmt.Errorf("%s %d: %w", op, n, err))
	}
}

// err puts the noted errors in one line.
func (t *trip) err() error {
	if len(t.errs) == 0 {
		return nil
	}
	return &attemptsError{t.errs}
}

// result is what a caller is told. NotSent holds only if nothing was ever sent; what came before may have charged.
func (t *trip) result(v verdict) Result {
	r := Result{Kind: v.kind, Attempts: t.requests}
	if r.Kind == NotSent && t.requests > 0 {
		r.Kind = Unknown
	}
	switch {
	case r.Kind.Final():
		r.Charge, r.Code = v.charge, v.code
	case r.Kind == NeverSeen:
	default:
		r.Charge, r.RetryAfter, r.Err = v.charge, v.retryAfter, t.err()
	}
	if r.Kind == NotSent {
		r.NotSent = v.notSent
	}
	return r
}

// attemptsError holds the errors of several attempts, in order.
type attemptsError struct{ errs []error }

func (e *attemptsError) Error() string {
	texts := make([]string, len(e.errs))
	for i, err := range e.errs {
		texts[i] = err.Error()
	}
	return "psp: " + strings.Join(texts, "; ")
}

func (e *attemptsError) Unwrap() []error { return e.errs }
