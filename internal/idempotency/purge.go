package idempotency

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// MinRetention is the shortest time that a key's answer is kept: a client may send the same key again for a day.
const MinRetention = 24 * time.Hour

const (
	doneSQL = `SELECT ` + recordColumns + `, completed_at
		FROM idempotency_keys
		WHERE status = 'done' AND completed_at <= NOW(3) - INTERVAL ? MICROSECOND
		  AND completed_at >= ? AND (completed_at, user_id, idem_key) > (?, ?, ?)
		ORDER BY completed_at, user_id, idem_key
		LIMIT ?`

	// By primary key, and so with a lock on these rows and on no gap between them: a claim never waits for it. A row that holds an
	// order is what keeps that order from being paid again.
	deleteDoneSQL = `DELETE FROM idempotency_keys WHERE status = 'done' AND open_order IS NULL
		AND completed_at <= NOW(3) - INTERVAL ? MICROSECOND AND (user_id, idem_key) IN (`
)

// DoneAfter is where a scan of the done keys goes on: after this row, in the order in which they were done. Only CompletedAt
// set means: from that moment on.
type DoneAfter struct {
	CompletedAt time.Time
	UserID      int64
	Key         Key
}

// Done returns at most limit keys that have been done for age or longer, the earliest first, and where to go on. Never a key that
// is processing or parked.
func (s *Store) Done(ctx context.Context, age time.Duration, after DoneAfter, limit int) (_ []Record, _ DoneAfter, err error) {
	if after.CompletedAt.IsZero() {
		after.CompletedAt = time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	rows, err := s.db.QueryContext(ctx, doneSQL, age.Microseconds(), after.CompletedAt, after.CompletedAt, after.UserID, []byte(after.Key.s), limit)
	if err != nil {
		return nil, after, fmt.Errorf("done keys: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var out []Record
	for rows.Next() {
		var completed time.Time
		r, err := scan(withLast{rows, &completed})
		if err != nil {
			return nil, after, fmt.Errorf("done keys: %w", err)
		}
		out = append(out, r)
		after = DoneAfter{CompletedAt: completed, UserID: r.UserID, Key: r.Key}
	}
	return out, after, rows.Err()
}

// withLast scans one more column than its caller asks for.
type withLast struct {
	row  interface{ Scan(...any) error }
	last any
}

func (w withLast) Scan(dest ...any) error { return w.row.Scan(append(dest, w.last)...) }

// DeleteDone deletes those of the keys that have been done for age or longer and hold no order, in one statement, and returns how many there were.
func (s *Store) DeleteDone(ctx context.Context, age time.Duration, keys []Record) (int, error) {
	if len(keys) == 0 {
		return 0, nil
	}
	args := append(make([]any, 0, 1+2*len(keys)), age.Microseconds())
	for _, r := range keys {
		args = append(args, r.UserID, []byte(r.Key.s))
	}
	res, err := s.db.ExecContext(ctx, deleteDoneSQL+strings.Repeat("(?, ?), ", len(keys)-1)+"(?, ?))", args...)
	if err != nil {
		return 0, fmt.Errorf("delete keys: %w", err)
	}
	n, err := res.RowsAffected()
	return int(n), err
}
