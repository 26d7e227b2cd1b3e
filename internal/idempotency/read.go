package idempotency

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"chargeonce/internal/mysql"
)

// Read returns a key's row, or [ErrNotFound]. It locks nothing.
func (s *Store) Read(ctx context.Context, userID int64, key Key) (Record, error) {
	return scanOne(s.db.QueryRowContext(ctx, readSQL, userID, []byte(key.s)))
}

// ByPayment returns the row of the key that minted the payment id, or [ErrNotFound]. q may be a transaction.
func (s *Store) ByPayment(ctx context.Context, q mysql.Querier, userID int64, paymentID string) (Record, error) {
	return scanOne(q.QueryRowContext(ctx, byPaymentSQL, userID, paymentID))
}

// LockByPayment is [Store.ByPayment] with the row locked until the end of tx: whoever writes a payment outside of a finish locks the
// key first, as a finish does, so that of the two one comes after the other and sees what it did.
func (s *Store) LockByPayment(ctx context.Context, tx mysql.Querier, userID int64, paymentID string) (Record, error) {
	return scanOne(tx.QueryRowContext(ctx, lockByPaymentSQL, userID, paymentID))
}

// StuckAfter is where a scan of the stuck keys goes on: after this row, in the order of their lease's end. The zero value
// starts with the oldest.
type StuckAfter struct {
	LockedUntil time.Time
	UserID      int64
	Key         Key
}

// Cursor returns the place of r in a scan of the stuck keys.
func (r Record) Cursor() StuckAfter { return StuckAfter{r.LockedUntil, r.UserID, r.Key} }

// Stuck returns at most limit keys that are processing though their lease has been over for grace or longer, oldest first.
func (s *Store) Stuck(ctx context.Context, grace time.Duration, after StuckAfter, limit int) (_ []Record, err error) {
	from := after.LockedUntil
	if from.IsZero() {
		from = time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	rows, err := s.db.QueryContext(ctx, stuckSQL, grace.Microseconds(), from, from, after.UserID, []byte(after.Key.s), limit)
	if err != nil {
		return nil, fmt.Errorf("stuck keys: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var out []Record
	for rows.Next() {
		r, err := scan(rows)
		if err != nil {
			return nil, fmt.Errorf("stuck keys: %w", err)
		}
		out = append(out, r)
	}
	return out, rows.Err()
}

func scanOne(row *sql.Row) (Record, error) {
	r, err := scan(row)
	if errors.Is(err, sql.ErrNoRows) {
		return Record{}, ErrNotFound
	}
	if err != nil {
		return Record{}, fmt.Errorf("read the key: %w", err)
	}
	return r, nil
}

func scan(row interface{ Scan(...any) error }) (Record, error) {
	var (
		r             Record
		key, hash, by []byte
		left, since   int64
		age           int64
		code          sql.NullInt32
		parkedFor     sql.NullString
	)
	err := row.Scan(&r.UserID, &key, &hash, &r.HashVersion, &r.Status, &r.Lease, &by, &left, &since, &age,
		&r.PaymentID, &r.OrderID, &r.Amount, &r.Currency, &code, &r.Stored.Body, &parkedFor, &r.LockedUntil, &r.CreatedAt, &r.HoldsOrder,
		&r.Traceparent)
	if err != nil {
		return Record{}, err
	}
	r.Key = Key{string(key)}
	if copy(r.Fingerprint[:], hash) != len(r.Fingerprint) || copy(r.Holder[:], by) != len(r.Holder) {
		return Record{}, fmt.Errorf("the row holds a hash of %d and a holder of %d bytes", len(hash), len(by))
	}
	r.LeaseLeft = time.Duration(left) * time.Microsecond
	r.SinceAttempt = time.Duration(since) * time.Microsecond
	r.Age = time.Duration(age) * time.Microsecond
	r.Stored.Code = int(code.Int32)
	r.ParkedFor = parkedFor.String
	return r, nil
}
