package reconcile

import (
	"context"
	"math/rand/v2"
	"time"
)

// Every runs passes until ctx ends, pausing between the end of one and the start of the next for every and a uniform random
// part of jitter; so passes of one process never overlap, and processes that started together do not stay in step. Each
// pass is handed to after with its error, which does not end the loop: a database that is away comes back.
func (r *Reconciler) Every(ctx context.Context, every, jitter time.Duration, after func(Report, error)) {
	for ctx.Err() == nil {
		after(r.Pass(ctx))
		pause := time.NewTimer(every + rand.N(max(jitter, 0)+1))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
		}
	}
}
