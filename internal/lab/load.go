package lab

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// paced runs do n times, one every interval by the clock, each in a goroutine of its own: an open load, which does not wait for
// the answers, as users don't. It returns when all have ended, with how late the latest of them began. When ctx ends, no more
// begin; that is the error.
func paced(ctx context.Context, n int, every time.Duration, do func(i int)) (late time.Duration, err error) {
	began := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var running sync.WaitGroup
	defer running.Wait()
	for i := range n {
		due := began.Add(time.Duration(i) * every)
		timer.Reset(time.Until(due))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return late, ctx.Err()
		}
		late = max(late, time.Since(due))
		running.Go(func() { do(i) })
	}
	return late, nil
}

// crowd runs do n times, at most width of them at once: a closed load, in which each worker waits for its answer before it asks
// again. The first error ends it.
func crowd(ctx context.Context, n, width int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(width, n) {
		workers.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

// gauge counts how many are inside, and the most that ever were at once.
type gauge struct {
	mu        sync.Mutex
	now, most int
}

func (g *gauge) enter() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now++
	g.most = max(g.most, g.now)
}

func (g *gauge) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now--
}

// quantile is the value that a share q (0 to 1) of the values does not exceed, by nearest rank; 0 of none.
func quantile(values []time.Duration, q float64) time.Duration {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[rank(len(sorted), q)]
}

// rank is the place, from 0, of a quantile among n values in order.
func rank(n int, q float64) int {
	return min(n-1, max(0, int(math.Ceil(q*float64(n)))-1))
}
