package idempotency

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"chargeonce/internal/mysql"
)

const (
	parkedSQL = `SELECT ` + recordColumns + `
		FROM idempotency_keys WHERE status = 'parked' ORDER BY locked_until, user_id, idem_key LIMIT ?`

	countParkedSQL = `SELECT COUNT(*) FROM idempotency_keys WHERE status = 'parked'`

	// It is a take-over: whoever parked the key, and still believes to hold it, is fenced.
	unparkSQL = `
		UPDATE idempotency_keys
		SET status = 'processing', lease = ?, holder = ?, locked_until = NOW(3) + INTERVAL ? MICROSECOND,
		    parked_for = NULL, completed_at = NULL
		WHERE user_id = ? AND idem_key = ? AND status = 'parked' AND lease = ? AND holder = ?`
)

// Parked returns at most limit keys that wait for a person, oldest first.
func (s *Store) Parked(ctx context.Context, limit int) (_ []Record, err error) {
	rows, err := s.db.QueryContext(ctx, parkedSQL, limit)
	if err != nil {
		return nil, fmt.Errorf("parked keys: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var out []Record
	for rows.Next() {
		r, err := scan(rows)
		if err != nil {
			return nil, fmt.Errorf("parked keys: %w", err)
		}
		out = append(out, r)
	}
	return out, rows.Err()
}

// CountParked counts the keys that wait for a person.
func (s *Store) CountParked(ctx context.Context) (int, error) {
	var n int
	if err := s.db.QueryRowContext(ctx, countParkedSQL).Scan(&n); err != nil {
		return 0, fmt.Errorf("count the parked keys: %w", err)
	}
	return n, nil
}

// Unpark puts a parked key back to work and gives its lease, for ttl, to the caller, who ends it by Finish or Release.
// [ErrLeaseLost]: it is not parked any more, or not as row says. After an error of the database the key may be parked or
// not; if not, its lease ends by itself.
func (s *Store) Unpark(ctx context.Context, row Record, ttl time.Duration) (Lease, error) {
	holder := uuid.New()
	err := fenced(s.db.ExecContext(ctx, unparkSQL, row.Lease+1, holder[:], ttl.Microseconds(),
		row.UserID, []byte(row.Key.s), row.Lease, row.Holder[:]))
	if mysql.AnswerLost(err) {
		now, readErr := s.Read(ctx, row.UserID, row.Key)
		if readErr == nil && now.Status == Processing && now.Holder == holder {
			return now.held(), nil
		}
		err = errors.Join(err, readErr)
	}
	if err != nil {
		return Lease{}, fmt.Errorf("unpark: %w", err)
	}
	row.Lease, row.Holder = row.Lease+1, holder
	return row.held(), nil
}
