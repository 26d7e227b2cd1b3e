package bench

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// operation does one thing to its end for one worker, which does nothing else meanwhile. Its error ends the load.
type operation func(ctx context.Context, worker int) error

// window is a stretch of time that is measured.
type window struct{ from, to time.Time }

func (w window) length() time.Duration { return w.to.Sub(w.from) }

// sample is what a load came to.
type sample struct {
	// done counts the operations that ended in the window.
	done int
	// took holds how long each took of those that were begun, or were due, in the window; in order.
	took []time.Duration
}

// closedLoop keeps n operations in flight until the window ends, and lets those end that are under way then.
func closedLoop(ctx context.Context, n int, w window, do operation) (sample, error) {
	return crowd(ctx, n, func(ctx context.Context, worker int, s *sample) error {
		for ctx.Err() == nil {
			began := time.Now()
			if !began.Before(w.to) {
				return nil
			}
			if err := do(ctx, worker); err != nil {
				return err
			}
			ended := time.Now()
			if !began.Before(w.from) {
				s.took = append(s.took, ended.Sub(began))
			}
			if !ended.Before(w.from) && ended.Before(w.to) {
				s.done++
			}
		}
		return ctx.Err()
	})
}

// openLoop begins an operation every 1/rate seconds by the clock, at most n at once, whether those before have ended or not. Each is
// timed from the moment it was due: one that has to wait for a worker, since others take too long, has waited as a user would.
// Timed from the moment it was sent, as in a closed loop, a stall would be counted once in place of for all whom it kept waiting
// (coordinated omission).
func openLoop(ctx context.Context, n int, rate float64, w window, do operation) (sample, error) {
	total := int64(rate * w.length().Seconds())
	every := float64(time.Second) / rate
	var next atomic.Int64
	return crowd(ctx, n, func(ctx context.Context, worker int, s *sample) error {
		for {
			i := next.Add(1) - 1
			if i >= total {
				return nil
			}
			due := w.from.Add(time.Duration(float64(i) * every))
			if err := sleepUntil(ctx, due); err != nil {
				return err
			}
			if err := do(ctx, worker); err != nil {
				return err
			}
			ended := time.Now()
			s.took = append(s.took, ended.Sub(due))
			if ended.Before(w.to) {
				s.done++
			}
		}
	})
}

// crowd runs n workers, adds up what they have measured, and returns the first error, which ends them all.
func crowd(ctx context.Context, n int, work func(ctx context.Context, worker int, s *sample) error) (sample, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	parts := make([]sample, n)
	var workers sync.WaitGroup
	for i := range n {
		workers.Go(func() {
			if err := work(ctx, i, &parts[i]); err != nil {
				cancel(err)
			}
		})
	}
	workers.Wait()
	var all sample
	for _, p := range parts {
		all.done += p.done
		all.took = append(all.took, p.took...)
	}
	slices.Sort(all.took)
	return all, context.Cause(ctx)
}

func sleepUntil(ctx context.Context, t time.Time) error {
	d := time.Until(t)
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// quantile is the value that a share q (0 to 1) of the values, which are in order, does not exceed, by nearest rank; 0 of none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(len(sorted), max(1, rank))-1]
}
