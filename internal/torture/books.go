package torture

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// books are all that is known at the end of a run, from three sides.
type books struct {
	cfg Config
	// The PSP's.
	charges []charge
	// The database's.
	payments []paymentRow
	keys     []keyRow
	audit    []auditRow
	// The clients'.
	ops       []op
	purchases map[slot]purchase
	open      map[slot]bool
}

// paymentRow is a row of payments.
type paymentRow struct {
	user                        int64
	id, order, currency, status string
	amount                      int64
	charge                      string
}

// keyRow is a row of idempotency_keys.
type keyRow struct {
	slot
	status, payment, order, currency string
	amount                           int64
	code                             sql.NullInt64
	parkedFor                        sql.NullString
	completed                        sql.NullTime
}

// readBooks reads all of them.
func readBooks(ctx context.Context, s *site, h *history) (*books, error) {
	b := &books{cfg: s.cfg, purchases: h.purchases, ops: h.ops, open: h.open}
	var errs [4]error
	b.charges, errs[0] = s.psp.ledger(ctx)
	b.payments, errs[1] = readPayments(ctx, s)
	b.keys, errs[2] = readKeys(ctx, s)
	b.audit, errs[3] = s.readAudit(ctx)
	return b, errors.Join(errs[:]...)
}

func readPayments(ctx context.Context, s *site) ([]paymentRow, error) {
	return readRows(ctx, s, `SELECT user_id, id, order_id, currency, status, amount, charge_id FROM payments`, func(rows *sql.Rows) (p paymentRow, err error) {
		return p, rows.Scan(&p.user, &p.id, &p.order, &p.currency, &p.status, &p.amount, &p.charge)
	})
}

func readKeys(ctx context.Context, s *site) ([]keyRow, error) {
	return readRows(ctx, s, `
		SELECT user_id, idem_key, status, payment_id, order_id, currency, amount, response_code, parked_for, completed_at
		FROM idempotency_keys`, func(rows *sql.Rows) (k keyRow, err error) {
		var key []byte
		err = rows.Scan(&k.user, &key, &k.status, &k.payment, &k.order, &k.currency, &k.amount, &k.code, &k.parkedFor, &k.completed)
		k.key = string(key)
		return k, err
	})
}

func readRows[T any](ctx context.Context, s *site, query string, scan func(*sql.Rows) (T, error)) (out []T, err error) {
	rows, err := s.db.QueryContext(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("torture: read the books: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		row, err := scan(rows)
		if err != nil {
			return nil, fmt.Errorf("torture: read the books: %w", err)
		}
		out = append(out, row)
	}
	return out, rows.Err()
}

// awaitQuiet waits until reconciliation has nothing left to do: no key is processing, and every charge is known as it is. Whether
// it got there is for the check to say.
func awaitQuiet(ctx context.Context, s *site) (time.Duration, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, s.cfg.pace.quiet)
	defer cancel()
	for {
		quiet, err := isQuiet(ctx, s)
		if quiet || ctx.Err() != nil {
			return time.Since(began), nil
		}
		if err != nil {
			return time.Since(began), err
		}
		if pause(ctx, 300*time.Millisecond) != nil {
			return time.Since(began), nil
		}
	}
}

func isQuiet(ctx context.Context, s *site) (bool, error) {
	var processing int
	if err := s.db.QueryRowContext(ctx, `SELECT COUNT(*) FROM idempotency_keys WHERE status = 'processing'`).Scan(&processing); err != nil {
		return false, fmt.Errorf("torture: wait for quiet: %w", err)
	}
	if processing > 0 {
		return false, nil
	}
	charges, err := s.psp.ledger(ctx)
	if err != nil {
		return false, err
	}
	payments, err := readPayments(ctx, s)
	if err != nil {
		return false, err
	}
	status := map[string]string{}
	for _, p := range payments {
		status[p.charge] = p.status
	}
	for _, c := range charges {
		if c.Status == "pending" || status[c.ID] != c.Status {
			return false, nil
		}
	}
	return true, nil
}
