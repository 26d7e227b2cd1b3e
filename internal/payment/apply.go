package payment

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"chargeonce/internal/idempotency"
	"chargeonce/internal/mysql"
	"chargeonce/internal/psp"
)

// ErrNotOurs: the charge names no user and payment of ours.
var ErrNotOurs = errors.New("the charge names no user and payment of ours")

// Applied tells what [Flow.Apply] did.
type Applied struct {
	Payment Payment
	// Changed: a row was written or raised. False when it said as much already, or more.
	Changed bool
	// ChargedAfterRefusal: the client was told that it was not charged, by the key's stored answer or by a payment that had
	// failed, and now it was. The payment is written and the answer left as it is; a person has to make it good.
	ChargedAfterRefusal bool
}

// Apply writes what the PSP says of a charge, in the caller's transaction and before or after the request that made the
// charge does. It inserts the payment or raises its status, and touches no key. A charge that is not the purchase which our
// records speak of gives a *[DiffersError], one that names none of ours [ErrNotOurs]; nothing is then written.
func (f *Flow) Apply(ctx context.Context, tx mysql.Querier, c psp.Charge) (Applied, error) {
	m := c.Metadata
	if m.UserID <= 0 || m.PaymentID == "" || m.OrderID == "" {
		return Applied{}, ErrNotOurs
	}
	status, err := statusOf(c)
	if err != nil {
		return Applied{}, err
	}
	key, err := f.keys.LockByPayment(ctx, tx, m.UserID, m.PaymentID)
	known := err == nil
	if known {
		err = agrees(key, c)
	} else if errors.Is(err, idempotency.ErrNotFound) {
		err = nil // the key was purged: the PSP's own record is what is left, and it carries all that a row needs
	}
	if err != nil {
		return Applied{}, err
	}
	now := f.now()
	w, err := write(ctx, tx, Payment{
		UserID: m.UserID, ID: m.PaymentID, OrderID: m.OrderID, Amount: c.Amount, Currency: c.Currency,
		Status: status, ChargeID: c.ID, CreatedAt: now, UpdatedAt: now,
	})
	if err != nil {
		return Applied{}, fmt.Errorf("apply charge %s: %w", c.ID, err)
	}
	if known && w.row.Status == Failed {
		if err := f.keys.FreeOrder(ctx, tx, key); err != nil {
			return Applied{}, err
		}
	}
	return Applied{
		Payment: w.row,
		Changed: w.changed(),
		ChargedAfterRefusal: w.row.Status == Succeeded &&
			(w.before == Failed || known && key.Status == idempotency.Done && f.render.Refused(key.Stored)),
	}, nil
}

// agrees compares a charge with the key that is said to have made it.
func agrees(key idempotency.Record, c psp.Charge) error {
	differ := func(field, ours, theirs string) error {
		return &DiffersError{ChargeID: c.ID, Field: field, Ours: ours, Theirs: theirs}
	}
	switch {
	case c.IdempotencyKey != idempotency.PSPKey(key.UserID, key.Key):
		return differ("idempotency key", "the derived one", "another")
	case c.Metadata.OrderID != key.OrderID:
		return differ("order_id", key.OrderID, c.Metadata.OrderID)
	case c.Amount != key.Amount:
		return differ("amount", strconv.FormatInt(key.Amount, 10), strconv.FormatInt(c.Amount, 10))
	case c.Currency != key.Currency:
		return differ("currency", key.Currency, c.Currency)
	}
	return nil
}
