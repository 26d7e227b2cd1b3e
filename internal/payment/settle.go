package payment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"chargeonce/internal/idempotency"
	"chargeonce/internal/psp"
)

// Settlement is what became of a stuck key.
type Settlement string

// The settlements. The first four end the key; after the others it waits for the next pass.
const (
	SettledCharged   Settlement = "charged"   // the PSP holds a charge; the payment is written
	SettledRefused   Settlement = "refused"   // the PSP had declined or rejected it
	SettledAbandoned Settlement = "abandoned" // the PSP had never seen it, and now never will
	SettledParked    Settlement = "parked"    // a person has to look
	LeftYoung        Settlement = "too_young" // never seen at the PSP, but the attempt is recent
	LeftUnknown      Settlement = "unknown"   // the PSP still works on it, or could not say
	LeftToOther      Settlement = "other"     // somebody else holds it or has finished it meanwhile
)

// SettleOptions bound one settlement. The zero value takes the defaults.
type SettleOptions struct {
	// Lease is how long the key is held for it (default 30 s).
	Lease time.Duration
	// AbandonAfter is how old the last attempt must be, by the database's clock, before a key that the PSP has never seen is
	// cancelled there and abandoned (default 1 h).
	AbandonAfter time.Duration
}

// Settle ends a key whose lease is over and whose request never came back: it takes the key over like any retry, asks the PSP what
// became of it, and finishes by what the PSP says. It never charges. row must have been read just before. The error, if any,
// is of our own database; a PSP that cannot be reached decides nothing and is no error.
func (f *Flow) Settle(ctx context.Context, row idempotency.Record, o SettleOptions) (Settlement, error) {
	if o.Lease == 0 {
		o.Lease = 30 * time.Second
	}
	if o.AbandonAfter == 0 {
		o.AbandonAfter = time.Hour
	}
	f.running.Add(1)
	defer f.running.Done()

	// What asks the PSP must end early enough for the finish to fit into the lease too.
	askUntil := time.Now().Add(o.Lease - f.timing.StoreTimeout - f.timing.LeaseMargin)
	l, err := f.takeOver(ctx, row, o.Lease)
	if errors.Is(err, idempotency.ErrLeaseLost) {
		return LeftToOther, nil
	}
	if err != nil {
		return "", err
	}
	asking, cancel := context.WithDeadline(ctx, askUntil)
	defer cancel()
	res, left := f.ask(asking, l, row, o.AbandonAfter)
	if left != "" {
		f.release(ctx, l)
		return left, nil
	}
	return f.settled(ctx, l, res)
}

func (f *Flow) takeOver(ctx context.Context, row idempotency.Record, ttl time.Duration) (idempotency.Lease, error) {
	ctx, cancel := f.detached(ctx)
	defer cancel()
	return f.keys.TakeOver(ctx, row, ttl)
}

// ask finds out what the PSP knows of the key, and has it refuse the key for good if it has never seen it and nobody can be
// trying any more. It returns a final result or a mismatch, or why the key has to be left.
func (f *Flow) ask(ctx context.Context, l idempotency.Lease, row idempotency.Record, abandonAfter time.Duration) (psp.Result, Settlement) {
	key, want := idempotency.PSPKey(l.UserID, l.Key), expect(l)
	res := f.psp.LookUp(ctx, key, want)
	if res.Kind == psp.NeverSeen {
		switch {
		case row.Age >= f.timing.PSPKeyRetention:
			return forgotten(row.Age), ""
		case row.SinceAttempt < abandonAfter:
			return res, LeftYoung
		}
		res = f.psp.Cancel(ctx, key, want)
	}
	if res.Kind.Final() || res.Kind == psp.Mismatch {
		return res, ""
	}
	return res, LeftUnknown
}

func expect(l idempotency.Lease) psp.Expect {
	return psp.Expect{Amount: l.Amount, Currency: l.Currency, UserID: l.UserID, OrderID: l.OrderID}
}

func (f *Flow) settled(ctx context.Context, l idempotency.Lease, res psp.Result) (Settlement, error) {
	answer, err := f.conclude(ctx, l, res)
	var busy *idempotency.InProgressError
	switch {
	case errors.Is(err, idempotency.ErrParked):
		return SettledParked, nil
	case errors.As(err, &busy):
		return LeftToOther, nil
	case err != nil:
		return "", fmt.Errorf("settle: %w", err)
	case answer.Replayed:
		return LeftToOther, nil // fenced: what stands is what somebody else has stored
	case res.Kind == psp.Cancelled:
		return SettledAbandoned, nil
	case res.Kind.HasCharge():
		return SettledCharged, nil
	}
	return SettledRefused, nil
}
