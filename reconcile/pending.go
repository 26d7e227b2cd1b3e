package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"chargeonce/internal/payment"
	"chargeonce/internal/psp"
)

const pendingSQL = `
	SELECT user_id, id, charge_id, updated_at FROM payments
	WHERE status = 'pending' AND updated_at <= ? AND updated_at >= ? AND (updated_at, user_id, id) > (?, ?, ?)
	ORDER BY updated_at, user_id, id LIMIT ?`

// waiting is a payment whose end is not known yet.
type waiting struct {
	user      int64
	id        string
	charge    string
	updatedAt time.Time
}

// pending asks for the charges that have been pending for long, oldest first and each once, and applies what the PSP says like
// the webhook that did not come.
func (p *pass) pending(ctx context.Context) error {
	var err error
	if p.pendingTotal, err = p.total(ctx, countPendingSQL, p.now.Add(-p.cfg.PendingAfter)); err != nil {
		return err
	}
	var after waiting
	for !p.over(ctx) {
		page, err := p.pendingPage(ctx, after)
		if err != nil || len(page) == 0 {
			return err
		}
		if err := each(ctx, p, page, p.askPending); err != nil {
			return err
		}
		after = page[len(page)-1]
	}
	return nil
}

func (p *pass) pendingPage(ctx context.Context, after waiting) (out []waiting, err error) {
	ctx, cancel := p.bound(ctx)
	defer cancel()
	from := orEpoch(after.updatedAt)
	rows, err := p.cfg.DB.QueryContext(ctx, pendingSQL, p.now.Add(-p.cfg.PendingAfter), from, from, after.user, after.id, p.cfg.Batch)
	if err != nil {
		return nil, fmt.Errorf("list the pending: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var w waiting
		if err := rows.Scan(&w.user, &w.id, &w.charge, &w.updatedAt); err != nil {
			return nil, fmt.Errorf("list the pending: %w", err)
		}
		out = append(out, w)
	}
	return out, rows.Err()
}

func (p *pass) askPending(ctx context.Context, w waiting) error {
	now := p.counted(func(r *Report) { r.Pending.Asked++ })
	p.step(phasePending, now.Pending.Asked, p.pendingTotal)
	c, err := p.gateway.Get(ctx, w.charge)
	switch {
	case errors.Is(err, psp.ErrNoSuchCharge):
		p.find(ctx, Finding{Kind: MissingThere, UserID: w.user, PaymentID: w.id, ChargeID: w.charge, Detail: "a pending charge that the PSP does not know"})
		return nil
	case err != nil:
		p.count(func(r *Report) { r.Pending.Unknown++ })
		return nil
	case c.Status == string(payment.Pending):
		p.count(func(r *Report) { r.Pending.Still++ })
		return nil
	}
	did, ok, err := p.apply(ctx, c)
	if ok && did.Changed {
		p.count(func(r *Report) { r.Pending.Changed++ })
	}
	return err
}

func orEpoch(t time.Time) time.Time {
	if t.IsZero() {
		return time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return t
}
