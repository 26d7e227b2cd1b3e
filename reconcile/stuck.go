package reconcile

import (
	"context"
	"fmt"

	"chargeonce/internal/idempotency"
	"chargeonce/internal/mysql"
	"chargeonce/internal/payment"
	"chargeonce/internal/psp"
)

// stuck settles the keys whose request never came back, oldest first and each once: the cursor only goes forward, and ends at
// what was stuck when the pass began. A key that was left is seen again by the next pass.
func (p *pass) stuck(ctx context.Context) error {
	last := p.now.Add(-p.cfg.Grace)
	var err error
	if p.stuckTotal, err = p.total(ctx, countStuckSQL, last); err != nil {
		return err
	}
	var after idempotency.StuckAfter
	for !p.over(ctx) {
		rows, err := p.stuckPage(ctx, after)
		if err != nil {
			return err
		}
		todo := rows
		for i, r := range rows {
			if r.LockedUntil.After(last) {
				todo = rows[:i]
				break
			}
		}
		if len(todo) == 0 {
			return nil
		}
		if err := each(ctx, p, todo, p.settle); err != nil {
			return err
		}
		if len(todo) < p.cfg.Batch {
			return nil
		}
		after = todo[len(todo)-1].Cursor()
	}
	return nil
}

func (p *pass) stuckPage(ctx context.Context, after idempotency.StuckAfter) ([]idempotency.Record, error) {
	ctx, cancel := p.bound(ctx)
	defer cancel()
	return p.flow.Keys().Stuck(ctx, p.cfg.Grace, after, p.cfg.Batch)
}

func (p *pass) settle(ctx context.Context, row idempotency.Record) error {
	now := p.counted(func(r *Report) {
		r.Stuck.Seen++
		r.Stuck.OldestMS = max(r.Stuck.OldestMS, row.SinceAttempt.Milliseconds())
	})
	p.step(phaseStuck, now.Stuck.Seen, p.stuckTotal)
	ctx, span := p.startKey(ctx, row)
	settlement, err := p.settleOne(ctx, row)
	endKey(span, settlement, err)
	if err != nil {
		if mysql.Away(ctx, p.cfg.DB, err) {
			return err
		}
		if mysql.Unavailable(err) {
			// Somebody keeps this row locked: a process that froze in the middle of a finish. The server ends its transaction
			// before long; the next pass settles the key.
			p.log.WarnContext(ctx, "a key could not be settled now", "key", row.Key.Hint(), "payment_id", row.PaymentID, "error", err)
			p.count(func(r *Report) { r.Stuck.add(payment.LeftUnknown) })
			return nil
		}
		// A fault of this one key, such as an answer that cannot be rendered, must not keep the others waiting.
		p.find(ctx, Finding{Kind: Stubborn, UserID: row.UserID, PaymentID: row.PaymentID, Detail: fmt.Sprintf("key %s: %v", row.Key.Hint(), err)})
		return nil
	}
	p.count(func(r *Report) { r.Stuck.add(settlement) })
	return nil
}

func (p *pass) settleOne(ctx context.Context, row idempotency.Record) (payment.Settlement, error) {
	if p.cfg.DryRun {
		return p.foresee(ctx, row), nil
	}
	return p.flow.Settle(ctx, row, payment.SettleOptions{Lease: p.cfg.Lease, AbandonAfter: p.cfg.AbandonAfter})
}

// foresee says how a key would be settled, by a look-up alone.
func (p *pass) foresee(ctx context.Context, row idempotency.Record) payment.Settlement {
	res := p.gateway.LookUp(ctx, idempotency.PSPKey(row.UserID, row.Key), psp.Expect{
		Amount: row.Amount, Currency: row.Currency, UserID: row.UserID, OrderID: row.OrderID,
	})
	switch {
	case res.Kind.HasCharge():
		return payment.SettledCharged
	case res.Kind == psp.Declined || res.Kind == psp.Rejected:
		return payment.SettledRefused
	case res.Kind == psp.Cancelled, res.Kind == psp.NeverSeen && row.SinceAttempt >= p.cfg.AbandonAfter:
		return payment.SettledAbandoned
	case res.Kind == psp.NeverSeen:
		return payment.LeftYoung
	case res.Kind == psp.Mismatch:
		return payment.SettledParked
	}
	return payment.LeftUnknown
}

func (s *Stuck) add(settlement payment.Settlement) {
	switch settlement {
	case payment.SettledCharged:
		s.Charged++
	case payment.SettledRefused:
		s.Refused++
	case payment.SettledAbandoned:
		s.Abandoned++
	case payment.SettledParked:
		s.Parked++
	case payment.LeftYoung:
		s.TooYoung++
	case payment.LeftUnknown:
		s.Unknown++
	case payment.LeftToOther:
		s.Other++
	}
}
