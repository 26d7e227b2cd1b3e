package payment

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"

	"chargeonce/internal/mysql"
)

const (
	insertInto = `
		INSERT INTO payments (user_id, id, order_id, amount, currency, status, charge_id, created_at, updated_at)
		VALUES `
	insertRow = `(?, ?, ?, ?, ?, ?, ?, ?, ?)`

	// The rank is the order of the list, which is the order of the column's ENUM.
	raiseSQL = `
		UPDATE payments SET status = ?, updated_at = ?
		WHERE user_id = ? AND charge_id = ?
		  AND FIELD(status, 'pending', 'failed', 'succeeded', 'canceled', 'refunded')
		    < FIELD(?, 'pending', 'failed', 'succeeded', 'canceled', 'refunded')`

	columns = `user_id, id, order_id, amount, currency, status, charge_id, created_at, updated_at`

	lockByChargeSQL = `SELECT ` + columns + ` FROM payments WHERE user_id = ? AND charge_id = ? FOR UPDATE`
	byIDSQL         = `SELECT ` + columns + ` FROM payments WHERE user_id = ? AND id = ?`
)

// written is what write left in the table: the row as it is now, and the status that it had before, "" for a row that is new.
type written struct {
	row    Payment
	before Status
}

func (w written) inserted() bool { return w.before == "" }
func (w written) changed() bool  { return w.before != w.row.Status }

// write brings the payment of a charge to p's status or leaves it higher, and returns the row as it is then. It decides by the
// unique keys alone: a plain INSERT, and after a duplicate a conditional raise. The affected rows of an upsert would say
// nothing (with clientFoundRows it is 1 whatever happened), and INSERT IGNORE hides every other fault too. A row that is not
// about the same purchase gives a *[DiffersError]. q must be a transaction. p's times must be UTC in whole milliseconds, as the
// columns hold them: then an inserted row reads as p.
func write(ctx context.Context, q mysql.Querier, p Payment) (written, error) {
	_, err := q.ExecContext(ctx, insertInto+insertRow, p.row()...)
	if err == nil {
		return written{row: p}, nil
	}
	if !mysql.Duplicate(err) {
		return written{}, fmt.Errorf("insert the payment: %w", err)
	}
	row, err := lockByCharge(ctx, q, p.UserID, p.ChargeID)
	if errors.Is(err, ErrNotFound) {
		// The duplicate was not this user's charge: the charge id is another user's, or the payment id has another charge.
		return written{}, &DiffersError{ChargeID: p.ChargeID, Field: "user or payment id", Ours: "another row", Theirs: p.ID}
	}
	if err != nil {
		return written{}, err
	}
	if err := p.sameAs(row); err != nil {
		return written{}, err
	}
	w := written{row: row, before: row.Status}
	res, err := q.ExecContext(ctx, raiseSQL, p.Status, p.UpdatedAt, p.UserID, p.ChargeID, p.Status)
	if err != nil {
		return written{}, fmt.Errorf("raise the payment: %w", err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		return written{}, fmt.Errorf("raise the payment: %w", err)
	}
	if n > 0 {
		w.row.Status, w.row.UpdatedAt = p.Status, p.UpdatedAt
	}
	return w, nil
}

// row gives the columns of an insert.
func (p Payment) row() []any {
	return []any{p.UserID, p.ID, p.OrderID, p.Amount, p.Currency, p.Status, p.ChargeID, p.CreatedAt, p.UpdatedAt}
}

// sameAs reports by a *DiffersError in what the row is about another purchase than p. The payment id is not part of it: a key
// that was claimed anew after its row was lost has a new one.
func (p Payment) sameAs(row Payment) error {
	differ := func(field, ours, theirs string) error {
		return &DiffersError{ChargeID: p.ChargeID, Field: field, Ours: ours, Theirs: theirs}
	}
	switch {
	case row.UserID != p.UserID:
		return differ("user_id", strconv.FormatInt(row.UserID, 10), strconv.FormatInt(p.UserID, 10))
	case row.OrderID != p.OrderID:
		return differ("order_id", row.OrderID, p.OrderID)
	case row.Amount != p.Amount:
		return differ("amount", strconv.FormatInt(row.Amount, 10), strconv.FormatInt(p.Amount, 10))
	case row.Currency != p.Currency:
		return differ("currency", row.Currency, p.Currency)
	}
	return nil
}

func lockByCharge(ctx context.Context, tx mysql.Querier, userID int64, chargeID string) (Payment, error) {
	return scan(tx.QueryRowContext(ctx, lockByChargeSQL, userID, chargeID))
}

func scan(row interface{ Scan(...any) error }) (Payment, error) {
	var p Payment
	err := row.Scan(&p.UserID, &p.ID, &p.OrderID, &p.Amount, &p.Currency, &p.Status, &p.ChargeID, &p.CreatedAt, &p.UpdatedAt)
	if errors.Is(err, sql.ErrNoRows) {
		return Payment{}, ErrNotFound
	}
	if err != nil {
		return Payment{}, fmt.Errorf("read the payment: %w", err)
	}
	return p, nil
}
