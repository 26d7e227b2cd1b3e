package client

import (
	"context"
	"math/rand/v2"
	"time"

	paymentsv1 "chargeonce/api/payments/v1"
)

// The waits when nobody said how long: full jitter, uniform in [0, min(backoffCap, backoffBase·2ⁿ)].
const (
	backoffBase = 200 * time.Millisecond
	backoffCap  = 5 * time.Second
)

// try makes tries until one succeeds or ends with another action than RETRY_SAME_KEY, which is then the error. A *gaveUp says
// that it stopped for another reason. tries is how many were made.
func (c *Client) try(ctx context.Context, key Key, once func(context.Context) *Error) (tries int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, &gaveUp{why: err}
	}
	for n := 1; ; n++ {
		began := time.Now()
		failed := c.bounded(ctx, once)
		a := Attempt{Number: n, Key: key, Took: time.Since(began), Err: failed, Last: true}
		if failed == nil || failed.NextAction != paymentsv1.NextAction_RETRY_SAME_KEY {
			c.tell(ctx, a)
			if failed == nil {
				return n, nil
			}
			return n, failed
		}
		wait := pause(n-1, failed.RetryAfter)
		if why := c.enough(ctx, n, wait); why != nil {
			c.tell(ctx, a)
			return n, &gaveUp{tries: n, why: why, last: failed}
		}
		a.Wait, a.Last = wait, false
		c.tell(ctx, a)
		if err := sleep(ctx, wait); err != nil {
			return n, &gaveUp{tries: n, why: err, last: failed}
		}
	}
}

// bounded makes one try within its time.
func (c *Client) bounded(ctx context.Context, once func(context.Context) *Error) *Error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.TryTimeout)
	defer cancel()
	return once(ctx)
}

// enough says why there is no try after the n-th; nil if there is one, after the wait.
func (c *Client) enough(ctx context.Context, n int, wait time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if n >= c.cfg.MaxTries {
		return ErrNoTriesLeft
	}
	if wait > c.cfg.MaxWait {
		return ErrWaitTooLong
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
		return ErrWaitTooLong
	}
	return nil
}

func (c *Client) tell(ctx context.Context, a Attempt) {
	if c.cfg.OnAttempt != nil {
		c.cfg.OnAttempt(ctx, a)
	}
}

// pause is the wait before retry n, from 0. One that was asked for is never cut short, and up to a quarter longer, so that all
// who were told the same do not come at once.
func pause(n int, asked time.Duration) time.Duration {
	if asked > 0 {
		return asked + rand.N(asked/4+1)
	}
	ceiling := backoffBase
	for ; n > 0 && ceiling < backoffCap; n-- {
		ceiling *= 2
	}
	return rand.N(min(ceiling, backoffCap) + 1)
}

// sleep waits for d, or until ctx ends, which is its error.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
