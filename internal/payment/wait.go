package payment

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"chargeonce/internal/idempotency"
)

// A watch looks at its key this often, on average every 100 ms, however many wait for it.
const (
	watchLeast  = 50 * time.Millisecond
	watchSpread = 100 * time.Millisecond
)

// watches are the keys that somebody of this process waits for. One goroutine a key looks at the row, so that a thousand
// waiters cost the database what one does, and nobody holds a connection while waiting.
type watches struct {
	mu   sync.Mutex
	byID map[watchID]*watch
}

type watchID struct {
	user int64
	key  idempotency.Key
}

// watch is one key's. It ends when the key is done or parked, or when nobody waits any more.
type watch struct {
	waiting int // under watches.mu
	stop    context.CancelFunc
	// turn is sent to one waiter when the key is free: of many, one tries to take it over.
	turn chan struct{}
	// ended is closed once row holds the key's end.
	ended chan struct{}
	row   idempotency.Record
}

// wait waits for the holder of the key, until limit at the most, and then has its answer; or has the key itself if the holder
// releases it and enough time is left. Else it returns busy, as if nobody had waited.
func (f *Flow) wait(ctx context.Context, p Purchase, deadline time.Time, busy error) (idempotency.Acquired, error) {
	limit := time.Now().Add(p.Wait)
	if last := deadline.Add(-f.timing.Reserve); last.Before(limit) {
		limit = last
	}
	timer := time.NewTimer(time.Until(limit))
	defer timer.Stop()
	id := watchID{p.UserID, p.Key}
	w := f.join(ctx, id)
	defer f.leave(id, w)
	for {
		select {
		case <-ctx.Done():
			return idempotency.Acquired{}, &UndecidedError{Why: leftOrLate(ctx.Err()), Err: ctx.Err()}
		case <-timer.C:
			return idempotency.Acquired{}, busy
		case <-w.ended:
			if w.row.Status == idempotency.Parked {
				return idempotency.Acquired{}, idempotency.ErrParked
			}
			return idempotency.Acquired{Record: &w.row}, nil
		case <-w.turn:
			if time.Until(deadline) < f.timing.Reserve+f.timing.MinCharge {
				return idempotency.Acquired{}, busy
			}
			got, err := f.claimOrder(ctx, p, deadline)
			var inProgress *idempotency.InProgressError
			if !errors.As(err, &inProgress) {
				return got, err
			}
			busy = err // somebody was faster: wait for that one
		}
	}
}

// join returns the watch of the key, and starts it for the first who waits.
func (f *Flow) join(ctx context.Context, id watchID) *watch {
	f.watches.mu.Lock()
	defer f.watches.mu.Unlock()
	if w := f.watches.byID[id]; w != nil {
		w.waiting++
		return w
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx)) // it outlives the waiter who started it
	w := &watch{waiting: 1, stop: stop, turn: make(chan struct{}), ended: make(chan struct{})}
	if f.watches.byID == nil {
		f.watches.byID = map[watchID]*watch{}
	}
	f.watches.byID[id] = w
	f.running.Go(func() { f.look(ctx, id, w) })
	return w
}

func (f *Flow) leave(id watchID, w *watch) {
	f.watches.mu.Lock()
	defer f.watches.mu.Unlock()
	if w.waiting--; w.waiting == 0 {
		w.stop()
		f.forget(id, w)
	}
}

// forget drops the watch, so that who comes later starts another. The caller holds the lock.
func (f *Flow) forget(id watchID, w *watch) {
	if f.watches.byID[id] == w {
		delete(f.watches.byID, id)
	}
}

// look reads the key's row now and then and tells the waiters what it says.
func (f *Flow) look(ctx context.Context, id watchID, w *watch) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(watchLeast + rand.N(watchSpread))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		row, err := f.readBounded(ctx, id)
		switch {
		case errors.Is(err, idempotency.ErrNotFound), err == nil && row.Status == idempotency.Processing && row.LeaseLeft <= 0:
			select {
			case w.turn <- struct{}{}:
			default: // all are at something else; they are told again
			}
		case err != nil:
			// The database is away: the waiters have deadlines, and the next look may succeed.
			f.log.DebugContext(ctx, "a key that is waited for could not be read", "key", id.key.Hint(), "error", err)
		case row.Status != idempotency.Processing:
			f.watches.mu.Lock()
			f.forget(id, w)
			f.watches.mu.Unlock()
			w.row = row
			close(w.ended)
			return
		}
	}
}

func (f *Flow) readBounded(ctx context.Context, id watchID) (idempotency.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timing.StoreTimeout)
	defer cancel()
	return f.keys.Read(ctx, id.user, id.key)
}
