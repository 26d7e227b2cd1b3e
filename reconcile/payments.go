package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"chargeonce/internal/idempotency"
	"chargeonce/internal/payment"
	"chargeonce/internal/psp"
)

const (
	selectSQL = `SELECT user_id, id, order_id, amount, currency, status, charge_id, created_at FROM payments `

	byChargesSQL = selectSQL + `WHERE charge_id IN (`

	chargedSQL = selectSQL + `WHERE status <> 'failed' AND (user_id, id) IN (`

	createdSQL = selectSQL + `
		WHERE created_at >= ? AND created_at <= ? AND (created_at, user_id, id) > (?, ?, ?)
		ORDER BY created_at, user_id, id LIMIT ?`
)

// openCount counts what could not be decided, since the PSP did not answer.
type openCount struct{ n atomic.Int64 }

// paymentsOf returns our payments for the charges, by charge id.
func (p *pass) paymentsOf(ctx context.Context, charges []psp.Charge) (map[string]payment.Payment, error) {
	out := make(map[string]payment.Payment, len(charges))
	if len(charges) == 0 {
		return out, nil
	}
	args := make([]any, len(charges))
	for i, c := range charges {
		args[i] = c.ID
	}
	rows, err := p.payments(ctx, byChargesSQL+strings.Repeat("?, ", len(charges)-1)+"?)", args...)
	for _, row := range rows {
		out[row.ChargeID] = row
	}
	return out, err
}

// paymentsBetween returns the next payments, a batch at most, that were written after the one given and not after to.
func (p *pass) paymentsBetween(ctx context.Context, after payment.Payment, to time.Time) ([]payment.Payment, error) {
	from := orEpoch(after.CreatedAt)
	return p.payments(ctx, createdSQL, from, to, from, after.UserID, after.ID, p.cfg.Batch)
}

// charged returns the payments, other than failed ones, under the payment ids of the keys.
func (p *pass) charged(ctx context.Context, keys []idempotency.Record) ([]payment.Payment, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	args := make([]any, 0, 2*len(keys))
	for _, k := range keys {
		args = append(args, k.UserID, k.PaymentID)
	}
	return p.payments(ctx, chargedSQL+strings.Repeat("(?, ?), ", len(keys)-1)+"(?, ?))", args...)
}

func (p *pass) payments(ctx context.Context, query string, args ...any) (out []payment.Payment, err error) {
	ctx, cancel := p.bound(ctx)
	defer cancel()
	rows, err := p.cfg.DB.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("read payments: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var r payment.Payment
		if err := rows.Scan(&r.UserID, &r.ID, &r.OrderID, &r.Amount, &r.Currency, &r.Status, &r.ChargeID, &r.CreatedAt); err != nil {
			return nil, fmt.Errorf("read payments: %w", err)
		}
		out = append(out, r)
	}
	return out, rows.Err()
}
