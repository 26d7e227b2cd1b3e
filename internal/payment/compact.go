package payment

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"chargeonce/internal/idempotency"
)

// Compact drops the stored body of a key that charged, if the same bytes can be made again from its payment, and reports whether it
// did. The row stays, and replays as before. A body that can't be made again (the webhook was first, and said more) stays too.
func (f *Flow) Compact(ctx context.Context, r idempotency.Record) (bool, error) {
	if r.Status != idempotency.Done || r.Stored.Body == nil || f.render.Refused(r.Stored) {
		return false, nil
	}
	again, err := f.remake(ctx, r)
	if errors.Is(err, errNotRemade) || err == nil && !bytes.Equal(again.Body, r.Stored.Body) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	err = f.keys.DropBody(ctx, r)
	if errors.Is(err, idempotency.ErrLeaseLost) {
		return false, nil // purged meanwhile
	}
	return err == nil, err
}

// errNotRemade: the answer can't be made from what the payments table holds.
var errNotRemade = errors.New("the answer can't be made again")

// remake makes the answer of a key that charged from its payment's row: as the payment was when it was answered, which the
// status code tells, and not as it is now.
func (f *Flow) remake(ctx context.Context, r idempotency.Record) (idempotency.Stored, error) {
	p, err := Get(ctx, f.db, r.UserID, r.PaymentID)
	if errors.Is(err, ErrNotFound) {
		return idempotency.Stored{}, errNotRemade
	}
	if err != nil {
		return idempotency.Stored{}, err
	}
	p.UpdatedAt = p.CreatedAt
	for _, status := range []Status{Succeeded, Pending} {
		p.Status = status
		a, err := f.render.Render(Result{Payment: &p})
		if err != nil {
			return idempotency.Stored{}, fmt.Errorf("render the answer: %w", err)
		}
		if a.Code == r.Stored.Code {
			return a, nil
		}
	}
	return idempotency.Stored{}, errNotRemade
}

// replay is the stored answer of a key that is done, made again if its body was dropped.
func (f *Flow) replay(ctx context.Context, r idempotency.Record) (Answer, error) {
	if r.Stored.Body != nil {
		return Answer{Stored: r.Stored, Replayed: true}, nil
	}
	ctx, cancel := f.detached(ctx)
	defer cancel()
	a, err := f.remake(ctx, r)
	if err != nil {
		return Answer{}, fmt.Errorf("replay of a compacted key: %w", err)
	}
	return Answer{Stored: a, Replayed: true}, nil
}
