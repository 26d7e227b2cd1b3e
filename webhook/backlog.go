package webhook

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

const (
	backlogSQL = `
		SELECT COALESCE(SUM(state = 'failed'), 0), COALESCE(SUM(state = 'dead'), 0), COALESCE(SUM(state = 'applied'), 0)
		FROM webhook_events
		WHERE state IN ('failed', 'dead') OR (state = 'applied' AND next_attempt_at IS NOT NULL)`

	listSQL = `
		SELECT user_id, event_id, type, COALESCE(charge_id, ''), state, attempts, COALESCE(last_error, ''), received_at, next_attempt_at
		FROM webhook_events
		WHERE state IN ('failed', 'dead') OR (state = 'applied' AND next_attempt_at IS NOT NULL)
		ORDER BY received_at, user_id, event_id LIMIT ?`
)

// Backlog counts the events that wait to be tried again, that were set aside as dead, and that were applied but say that a
// charge stands after a refusal. The last two need a person.
func (in *Inbox) Backlog(ctx context.Context) (failed, dead, chargedAfterRefusal int, err error) {
	if err := in.db.QueryRowContext(ctx, backlogSQL).Scan(&failed, &dead, &chargedAfterRefusal); err != nil {
		return 0, 0, 0, fmt.Errorf("webhook: count the inbox: %w", err)
	}
	return failed, dead, chargedAfterRefusal, nil
}

// Entry is an event of the inbox that is not simply done with.
type Entry struct {
	UserID     int64     `json:"user_id"`
	EventID    string    `json:"event_id"`
	Type       string    `json:"type"`
	ChargeID   string    `json:"charge_id"`
	State      State     `json:"state"`
	Attempts   int       `json:"attempts"`
	LastError  string    `json:"last_error"`
	ReceivedAt time.Time `json:"received_at"`
	// NextAttemptAt is nil for a dead event.
	NextAttemptAt *time.Time `json:"next_attempt_at"`
}

// List returns at most limit events that wait, are dead, or need a person, oldest first.
func (in *Inbox) List(ctx context.Context, limit int) (out []Entry, err error) {
	rows, err := in.db.QueryContext(ctx, listSQL, limit)
	if err != nil {
		return nil, fmt.Errorf("webhook: list the inbox: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var e Entry
		var next sql.NullTime
		if err := rows.Scan(&e.UserID, &e.EventID, &e.Type, &e.ChargeID, &e.State, &e.Attempts, &e.LastError, &e.ReceivedAt, &next); err != nil {
			return nil, fmt.Errorf("webhook: list the inbox: %w", err)
		}
		if next.Valid {
			e.NextAttemptAt = &next.Time
		}
		out = append(out, e)
	}
	return out, rows.Err()
}
