package payment

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"chargeonce/internal/mysql"
)

// Newest first is an index backwards, since ids sort by time: nothing to sort, and stable while rows arrive. The index is forced: left
// to itself the optimizer takes the other one now and then, and reads and sorts all that the user ever paid.
const (
	listSQL = `SELECT ` + columns + ` FROM payments FORCE INDEX (PRIMARY)
		WHERE user_id = ? AND id < ? ORDER BY id DESC LIMIT ?`
	listByOrderSQL = `SELECT ` + columns + ` FROM payments FORCE INDEX (user_order)
		WHERE user_id = ? AND order_id = ? AND id < ? ORDER BY id DESC LIMIT ?`
)

// afterAll sorts behind every id.
const afterAll = "pay_~"

// Get returns the payment as it is now, or [ErrNotFound] when there is none or it is another user's.
func Get(ctx context.Context, db *sql.DB, userID int64, id string) (Payment, error) {
	return get(ctx, db, userID, id)
}

func get(ctx context.Context, q mysql.Querier, userID int64, id string) (Payment, error) {
	return scan(q.QueryRowContext(ctx, byIDSQL, userID, id))
}

// List returns at most limit payments of the user, newest first, that come after the payment id before (all, when it is empty)
// and belong to the order (any, when it is empty).
func List(ctx context.Context, db *sql.DB, userID int64, orderID, before string, limit int) ([]Payment, error) {
	if before == "" {
		before = afterAll
	}
	if orderID == "" {
		return query(ctx, db, listSQL, userID, before, limit)
	}
	return query(ctx, db, listByOrderSQL, userID, orderID, before, limit)
}

func query(ctx context.Context, q mysql.Querier, statement string, args ...any) (_ []Payment, err error) {
	rows, err := q.QueryContext(ctx, statement, args...)
	if err != nil {
		return nil, fmt.Errorf("list payments: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var out []Payment
	for rows.Next() {
		p, err := scan(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, rows.Err()
}
