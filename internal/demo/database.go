package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	paymentsv1 "chargeonce/api/payments/v1"
	"chargeonce/api/payments/v1/client"
)

// rows counts the order's payments: in the table, or where that can't be reached, through the API.
func (st *stage) rows(ctx context.Context, order string) (n int, err error) {
	if st.db == nil {
		return st.listed(ctx, order)
	}
	err = st.db.QueryRowContext(ctx, `SELECT COUNT(*) FROM payments WHERE user_id = ? AND order_id = ?`, user, order).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("demo: payment rows: %w", err)
	}
	return n, nil
}

func (st *stage) listed(ctx context.Context, order string) (n int, err error) {
	cfg := st.one.config()
	cfg.APIKey = st.apiKey
	c, err := client.New(cfg)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	page, err := c.List(ctx, &paymentsv1.ListPaymentsRequest{OrderId: order})
	return len(page.GetPayments()), err
}

// keyState words the key's row.
func (st *stage) keyState(ctx context.Context, key client.Key) (string, error) {
	var status string
	var lease int64
	err := st.db.QueryRowContext(ctx, `SELECT status, lease FROM idempotency_keys WHERE user_id = ? AND idem_key = ?`, user, []byte(key)).
		Scan(&status, &lease)
	if errors.Is(err, sql.ErrNoRows) {
		return "not there", nil
	}
	if err != nil {
		return "", fmt.Errorf("demo: the key's row: %w", err)
	}
	return fmt.Sprintf("%s, lease %d", status, lease), nil
}

// released reports whether the key may be taken over, by the database's clock.
func (st *stage) released(ctx context.Context, key client.Key) (free bool, err error) {
	err = st.db.QueryRowContext(ctx, `SELECT status = 'processing' AND locked_until <= NOW(3)
		FROM idempotency_keys WHERE user_id = ? AND idem_key = ?`, user, []byte(key)).Scan(&free)
	if err != nil {
		return false, fmt.Errorf("demo: the key's row: %w", err)
	}
	return free, nil
}

// webhookLead is by how much the order's event was applied before its key was done, and the event's state: "not applied" when
// there is none that was.
func (st *stage) webhookLead(ctx context.Context, order string, key client.Key) (lead time.Duration, state string, err error) {
	var micros int64
	err = st.db.QueryRowContext(ctx, `SELECT e.state, TIMESTAMPDIFF(MICROSECOND, e.applied_at, k.completed_at)
		FROM idempotency_keys k
		JOIN payments p ON p.user_id = k.user_id AND p.id = k.payment_id
		JOIN webhook_events e ON e.user_id = p.user_id AND e.charge_id = p.charge_id
		WHERE k.user_id = ? AND k.idem_key = ? AND k.order_id = ? AND e.applied_at IS NOT NULL`, user, []byte(key), order).Scan(&state, &micros)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, "not applied", nil
	}
	if err != nil {
		return 0, "", fmt.Errorf("demo: the webhook's row: %w", err)
	}
	return time.Duration(micros) * time.Microsecond, state, nil
}
