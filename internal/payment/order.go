package payment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"chargeonce/internal/idempotency"
)

// orderTries bounds how often a claim that met another key of its order is made again: once that key is settled and the order
// free, a third one may be faster.
const orderTries = 3

// claimOrder claims the key. When another key of the user holds the order, it answers by how that one stands; when that one's lease
// is over, it settles it first, by the same step as reconciliation, so that a customer who reinstalled the app is neither charged
// twice nor locked out until reconciliation gives the first key up.
func (f *Flow) claimOrder(ctx context.Context, p Purchase, deadline time.Time) (idempotency.Acquired, error) {
	var open *idempotency.OrderOpenError
	for range orderTries {
		got, err := f.claim(ctx, p, deadline)
		if !errors.As(err, &open) {
			return got, err
		}
		if err := f.orderOpen(ctx, open.Record, deadline); err != nil {
			return idempotency.Acquired{}, err
		}
	}
	return idempotency.Acquired{}, &OrderInProgressError{}
}

// orderOpen returns nil when the order has become free, and else why it is not.
func (f *Flow) orderOpen(ctx context.Context, first idempotency.Record, deadline time.Time) error {
	switch first.Status {
	case idempotency.Parked:
		return idempotency.ErrParked
	case idempotency.Done:
		return f.orderPaid(ctx, first)
	case idempotency.Processing:
	}
	if first.LeaseLeft > 0 {
		return &OrderInProgressError{LeaseLeft: first.LeaseLeft}
	}
	asking, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline.Add(-f.timing.Reserve))
	defer cancel()
	settled, err := f.Settle(asking, first, SettleOptions{
		Lease: f.timing.lease(time.Until(deadline)),
		// However recent its attempt: its holder is gone or has given up, and one that wakes is refused by the PSP.
		AbandonAfter: time.Nanosecond,
	})
	if err != nil {
		return fmt.Errorf("settle the order's first key: %w", err)
	}
	switch settled {
	case SettledParked:
		return idempotency.ErrParked
	case SettledRefused, SettledAbandoned:
		return nil
	case SettledCharged:
		return f.orderPaid(ctx, first)
	case LeftYoung, LeftUnknown, LeftToOther:
	}
	return &OrderInProgressError{}
}

// orderPaid tells by the order's payments how a key stands that is done and keeps its order.
func (f *Flow) orderPaid(ctx context.Context, first idempotency.Record) error {
	ctx, cancel := f.detached(ctx)
	defer cancel()
	payments, err := List(ctx, f.db, first.UserID, first.OrderID, "", 10)
	if err != nil {
		return err
	}
	for _, p := range payments {
		switch p.Status {
		case Pending:
			return &OrderInProgressError{}
		case Succeeded, Canceled, Refunded:
			return &OrderPaidError{PaymentID: p.ID}
		case Failed:
		}
	}
	return nil // it failed after all, and whoever wrote that has freed the order or is about to
}
