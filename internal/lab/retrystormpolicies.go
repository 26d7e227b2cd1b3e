package lab

import (
	"context"
	"math/rand/v2"
	"time"
)

// policy says how long a client waits before it tries again.
type policy struct {
	name string
	// wait is the wait after failure n, from 0, when the wait before was last (0: there was none). Nil: see servicesOwn.
	wait func(draw *rand.Rand, n int, last time.Duration) time.Duration
}

// backoffCurve is min(cap, base·2ⁿ), which every exponential policy begins with.
type backoffCurve struct{ base, cap time.Duration }

func (c backoffCurve) at(n int) time.Duration {
	d := c.base
	for ; n > 0 && d < c.cap; n-- {
		d *= 2
	}
	return min(d, c.cap)
}

// The policies. Exponential backoff and full, equal and decorrelated jitter are those of Marc Brooker, "Exponential Backoff And
// Jitter", AWS Architecture Blog, 2015.

func noWait() policy {
	return policy{"at once", func(*rand.Rand, int, time.Duration) time.Duration { return 0 }}
}

func fixedWait(d time.Duration) policy {
	return policy{"fixed " + figure(d), func(*rand.Rand, int, time.Duration) time.Duration { return d }}
}

func exponentialWait(c backoffCurve) policy {
	return policy{"exponential", func(_ *rand.Rand, n int, _ time.Duration) time.Duration { return c.at(n) }}
}

// fullJitter is uniform in [0, min(cap, base·2ⁿ)], as in package psp.
func fullJitter(c backoffCurve) policy {
	return policy{"full jitter", func(draw *rand.Rand, n int, _ time.Duration) time.Duration { return drawUpTo(draw, c.at(n)) }}
}

// servicesOwn leaves waiting and trying again to the service's PSP client.
var servicesOwn = policy{name: "full jitter, our client"}

// decorrelatedJitter is uniform between base and three times the wait before, up to cap.
func decorrelatedJitter(c backoffCurve) policy {
	return policy{"decorrelated jitter", func(draw *rand.Rand, _ int, last time.Duration) time.Duration {
		return min(c.cap, c.base+drawUpTo(draw, 3*max(last, c.base)-c.base))
	}}
}

// equalJitter is one half for certain, and the other drawn.
func equalJitter(c backoffCurve) policy {
	return policy{"equal jitter", func(draw *rand.Rand, n int, _ time.Duration) time.Duration {
		half := c.at(n) / 2
		return half + drawUpTo(draw, half)
	}}
}

func plusMinus20(c backoffCurve) policy {
	return policy{"± 20 % jitter", func(draw *rand.Rand, n int, _ time.Duration) time.Duration {
		fifth := c.at(n) / 5
		return c.at(n) - fifth + drawUpTo(draw, 2*fifth)
	}}
}

// drawUpTo is uniform in [0, d].
func drawUpTo(draw *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(draw.Int64N(int64(d) + 1))
}

// retry makes tries, at most so many, until one succeeds, and waits between them as p says. It returns how many it made and
// whether the last one succeeded. The error is try's own, or ctx's.
func (p policy) retry(ctx context.Context, draw *rand.Rand, most int, try func() (bool, error)) (made int, ok bool, err error) {
	var wait time.Duration
	for {
		ok, err = try()
		made++
		if ok || err != nil || made >= most {
			return made, ok, err
		}
		wait = p.wait(draw, made-1, wait)
		if err := waitFor(ctx, wait); err != nil {
			return made, false, err
		}
	}
}

// waitFor waits for d by a timer, or until ctx ends, which is its error.
func waitFor(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
