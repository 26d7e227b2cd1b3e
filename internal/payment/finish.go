package payment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"chargeonce/internal/idempotency"
	"chargeonce/internal/mysql"
	"chargeonce/internal/psp"
)

// finishTries bounds how often a finish is run again after an answer that was lost. Running it again is safe: it is one
// transaction, and its first write is fenced, so of two runs one matches no row.
const (
	finishTries = 8
	maxPause    = 100 * time.Millisecond
)

// finish records the PSP's verdict under the lease: key and payment in one transaction. A holder that was taken over writes
// nothing and gets what the winner stored, or *[idempotency.InProgressError] while the winner still works.
func (f *Flow) finish(ctx context.Context, l idempotency.Lease, res psp.Result) (Answer, error) {
	ctx, cancel := f.detached(ctx)
	defer cancel()
	v, err := f.decide(l, res)
	if err != nil {
		return f.failed(ctx, l, err)
	}
	first, err := f.render.Render(v.answer())
	if err != nil {
		return Answer{}, fmt.Errorf("render the answer: %w", err)
	}
	if f.together != nil && v.payment != nil && !v.freesOrder() && f.together.finish(ctx, l, first, *v.payment) {
		return Answer{Stored: first}, nil
	}
	for n := range finishTries {
		var stored idempotency.Stored
		stored, err = f.finishOnce(ctx, l, v, first)
		if err == nil {
			return Answer{Stored: stored}, nil
		}
		if !mysql.AnswerLost(err) && !mysql.Contended(err) {
			return f.failed(ctx, l, err)
		}
		// The answer was lost: the run may be committed, or be rolled back, or be neither yet. Running it again waits for its
		// row lock and then either does the work or matches no row, and the row then says whose work was done.
		if mysql.Pause(ctx, n, maxPause) != nil {
			break
		}
	}
	// The key stays ours until the lease is over; it is not released, since the lost run may still commit.
	return Answer{}, fmt.Errorf("finish: not settled: %w", errors.Join(err, ctx.Err()))
}

// failed ends a finish that another run would not better.
func (f *Flow) failed(ctx context.Context, l idempotency.Lease, err error) (Answer, error) {
	var differs *DiffersError
	switch {
	case errors.As(err, &differs):
		return f.park(ctx, l, differs.Error())
	case errors.Is(err, idempotency.ErrLeaseLost):
		return f.superseded(ctx, l)
	}
	return Answer{}, fmt.Errorf("finish: %w", err)
}

// finishOnce is one run of the transaction. The key comes first, since its row is the fence: whoever lost the lease waits for
// nobody and writes nothing. first is the answer as far as is known before.
func (f *Flow) finishOnce(ctx context.Context, l idempotency.Lease, v verdict, first idempotency.Stored) (stored idempotency.Stored, err error) {
	err = mysql.WithTx(ctx, f.db, func(tx mysql.Querier) error {
		stored = first
		if err := f.keys.Finish(ctx, tx, l, stored, v.payment == nil); err != nil {
			return err
		}
		if v.payment == nil {
			return notPaid(ctx, tx, l, v)
		}
		w, err := write(ctx, tx, *v.payment)
		if err != nil {
			return err
		}
		now := verdict{payment: &w.row, code: v.code}
		if w.inserted() && !now.freesOrder() {
			return nil
		}
		// The webhook was first, and its row may say more than we know: the answer is built from the row.
		stored, err = f.render.Render(now.answer())
		if err != nil {
			return fmt.Errorf("render the answer: %w", err)
		}
		return f.keys.Restate(ctx, tx, l, stored, now.freesOrder())
	})
	return stored, err
}

// superseded answers a holder whose finish matched no row, by what the row says now.
func (f *Flow) superseded(ctx context.Context, l idempotency.Lease) (Answer, error) {
	row, err := f.keys.Read(ctx, l.UserID, l.Key)
	if err != nil {
		return Answer{}, fmt.Errorf("finish: %w", err)
	}
	switch row.Status {
	case idempotency.Done:
		ours := row.HeldBy(l) // an earlier run of this very finish, whose answer was lost
		if !ours {
			f.log.InfoContext(ctx, "fenced: the lease was taken over, and the new holder's answer stands",
				"key", l.Key.Hint(), "lease", l.Token, "lease_now", row.Lease)
		}
		a, err := f.replay(ctx, row)
		a.Replayed = !ours
		return a, err
	case idempotency.Parked:
		return Answer{}, idempotency.ErrParked
	case idempotency.Processing:
	}
	f.log.InfoContext(ctx, "fenced: the lease was taken over, and the new holder still works",
		"key", l.Key.Hint(), "lease", l.Token, "lease_now", row.Lease)
	return Answer{}, &idempotency.InProgressError{LeaseLeft: max(row.LeaseLeft, 0)}
}

// notPaid refuses to store a refusal over a payment that we hold: the PSP has told of a charge by webhook and now says that there is
// none. Were it stored, the client would be told to pay again.
func notPaid(ctx context.Context, tx mysql.Querier, l idempotency.Lease, v verdict) error {
	p, err := get(ctx, tx, l.UserID, l.PaymentID)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil
	case err != nil:
		return err
	case p.Status == Failed:
		return nil
	}
	return &DiffersError{ChargeID: p.ChargeID, Field: "status", Ours: string(p.Status), Theirs: string(v.refusal)}
}

// verdict is what a final result of the PSP means for us: the payment that belongs in the table, if a charge exists, or else
// the refusal. code is the PSP's decline, rejection or failure code.
type verdict struct {
	payment *Payment
	refusal RefusalKind
	code    string
}

// freesOrder reports whether the order is still to be paid. A refund or a void does not free it: it was paid once.
func (v verdict) freesOrder() bool { return v.payment == nil || v.payment.Status == Failed }

// answer is what the client is told. A charge that was pending once and has failed is told as a decline: no money moved, and
// another attempt needs another key.
func (v verdict) answer() Result {
	switch {
	case v.payment == nil:
		return Result{Refusal: &Refusal{Kind: v.refusal, Code: v.code}}
	case v.payment.Status == Failed:
		return Result{Refusal: &Refusal{Kind: CardDeclined, Code: v.code}}
	}
	return Result{Payment: v.payment}
}

// decide is the table of what the PSP's final answers come to.
func (f *Flow) decide(l idempotency.Lease, res psp.Result) (verdict, error) {
	switch res.Kind {
	case psp.Succeeded, psp.Pending, psp.Voided, psp.Refunded, psp.Failed:
		if res.Charge == nil {
			return verdict{}, fmt.Errorf("payment: the PSP client reported %s without a charge", res.Kind)
		}
		p, err := f.paymentOf(l, *res.Charge)
		return verdict{payment: &p, code: res.Charge.FailureCode}, err
	case psp.Declined:
		return verdict{refusal: CardDeclined, code: res.Code}, nil
	case psp.Rejected:
		return verdict{refusal: PSPRejected, code: res.Code}, nil
	case psp.Cancelled:
		return verdict{refusal: Abandoned}, nil
	case psp.Unknown, psp.StillWorking, psp.NeverSeen, psp.NotSent, psp.Mismatch:
	}
	return verdict{}, fmt.Errorf("payment: %s is not a final result", res.Kind)
}

// paymentOf is the row for a charge that the key's holder was told of: what was bought is what the key says.
func (f *Flow) paymentOf(l idempotency.Lease, c psp.Charge) (Payment, error) {
	status, err := statusOf(c)
	if err != nil {
		return Payment{}, err
	}
	now := f.now()
	p := Payment{
		UserID: l.UserID, ID: l.PaymentID, OrderID: l.OrderID, Amount: l.Amount, Currency: l.Currency,
		Status: status, ChargeID: c.ID, CreatedAt: now, UpdatedAt: now,
	}
	// The PSP client has compared these already; a second look costs nothing, and this one stands right before the write.
	theirs := p
	theirs.Amount, theirs.Currency = c.Amount, c.Currency
	return p, theirs.sameAs(p)
}
