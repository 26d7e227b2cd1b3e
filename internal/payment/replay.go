package payment

import (
	"context"
	"errors"

	"chargeonce/internal/idempotency"
)

// ErrNotDone says that a key has no answer to replay, and that nobody works on it now.
var ErrNotDone = errors.New("the key has no final answer")

// Replay answers a request from what is stored and writes nothing: it is Create of a server in read-only mode. It returns the
// answer of a key that is done, or an error: [ErrNotDone], idempotency.ErrReused, ErrParked or *InProgressError, or the
// database's.
func (f *Flow) Replay(ctx context.Context, p Purchase) (Answer, error) {
	row, err := f.readBounded(ctx, watchID{p.UserID, p.Key})
	if errors.Is(err, idempotency.ErrNotFound) {
		return Answer{}, ErrNotDone
	}
	if err != nil {
		return Answer{}, err
	}
	print, err := idempotency.NewFingerprint(row.HashVersion, p.RPC, p.Request)
	if err != nil {
		return Answer{}, err
	}
	switch {
	case print != row.Fingerprint:
		return Answer{}, idempotency.ErrReused
	case row.Status == idempotency.Done:
		return f.replay(ctx, row)
	case row.Status == idempotency.Parked:
		return Answer{}, idempotency.ErrParked
	case row.LeaseLeft > 0:
		return Answer{}, &idempotency.InProgressError{LeaseLeft: row.LeaseLeft}
	}
	return Answer{}, ErrNotDone
}
