package webhook

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"chargeonce/internal/mysql"
)

const (
	dueSQL = `
		SELECT user_id, event_id FROM webhook_events
		WHERE state = 'failed' AND next_attempt_at <= NOW(3)
		ORDER BY next_attempt_at LIMIT ?`

	flaggedSQL = `
		SELECT user_id, event_id FROM webhook_events
		WHERE state = 'applied' AND next_attempt_at <= NOW(3)
		ORDER BY next_attempt_at LIMIT ?`

	// The lock makes two that try the same event at once take turns; the second then finds it done.
	lockSQL = `
		SELECT state, attempts, payload, next_attempt_at IS NOT NULL FROM webhook_events
		WHERE user_id = ? AND event_id = ? FOR UPDATE`

	appliedSQL = `
		UPDATE webhook_events
		SET state = 'applied', attempts = ?, last_error = ?, next_attempt_at = IF(?, NOW(3), NULL), applied_at = NOW(3)
		WHERE user_id = ? AND event_id = ?`

	failedSQL = `
		UPDATE webhook_events
		SET state = ?, attempts = attempts + 1, last_error = ?, next_attempt_at = NOW(3) + INTERVAL ? MICROSECOND
		WHERE user_id = ? AND event_id = ? AND state = ? AND attempts = ?`

	settledSQL = `
		UPDATE webhook_events SET last_error = NULL, next_attempt_at = NULL
		WHERE user_id = ? AND event_id = ? AND state = 'applied'`

	ignoreSQL = `
		UPDATE webhook_events SET state = 'ignored', next_attempt_at = NULL
		WHERE event_id = ? AND (state IN ('failed', 'dead') OR next_attempt_at IS NOT NULL)`

	purgeSQL = `
		DELETE FROM webhook_events
		WHERE received_at < NOW(3) - INTERVAL ? MICROSECOND AND state IN ('applied', 'ignored') AND next_attempt_at IS NULL
		ORDER BY received_at LIMIT ?`
)

// MinRetention is the shortest time that an event is kept: the PSP sends an event for about three days, and an id that was
// forgotten meanwhile would have its effect twice.
const MinRetention = 4 * 24 * time.Hour

// rowID names a row of the inbox.
type rowID struct {
	user  int64
	event []byte
}

// RetryDue tries the kept events again whose time has come, at most limit of them, and looks again at the applied ones that
// a person has to make good. It counts the events that it applied, that failed once more, and that it set aside as dead.
// The error is the database's and ends the run; what was done stays done.
func (in *Inbox) RetryDue(ctx context.Context, limit int) (applied, failed, dead int, err error) {
	due, err := in.ids(ctx, dueSQL, limit)
	if err != nil {
		return 0, 0, 0, err
	}
	for _, id := range due {
		if ctx.Err() != nil {
			return applied, failed, dead, nil // the caller stops; the rest is due next time
		}
		state, err := in.try(ctx, id, Failed)
		if err != nil && !mysql.Away(ctx, in.db, err) && ours(err) {
			in.log.WarnContext(ctx, "an event could not be tried again now", "event_id", string(id.event), "error", err)
			continue // somebody keeps a row of it locked; the others need not wait for that
		}
		if err != nil {
			return applied, failed, dead, err
		}
		switch state {
		case Applied, Ignored:
			applied++
		case Failed:
			failed++
		case Dead:
			dead++
		}
	}
	return applied, failed, dead, in.lookAgain(ctx, limit)
}

// Replay tries a kept event again now, a dead one too, and returns the state it is in then. It is for a person who has mended
// the cause. An event that was applied or ignored is left as it is. sql.ErrNoRows: there is no such event.
func (in *Inbox) Replay(ctx context.Context, eventID string) (State, error) {
	var id rowID
	var state State
	err := in.db.QueryRowContext(ctx, `SELECT user_id, event_id, state FROM webhook_events WHERE event_id = ?`, []byte(eventID)).
		Scan(&id.user, &id.event, &state)
	if err != nil {
		return "", fmt.Errorf("webhook: event %s: %w", eventID, err)
	}
	if state == Applied || state == Ignored {
		return state, nil
	}
	got, err := in.try(ctx, id, state)
	if got == "" && err == nil {
		return state, nil // somebody else tried it meanwhile
	}
	return got, err
}

// Ignore puts an event aside that a person has dealt with in another way: it is not tried, looked at or counted again.
// It reports whether there was such an event.
func (in *Inbox) Ignore(ctx context.Context, eventID string) (bool, error) {
	res, err := in.db.ExecContext(ctx, ignoreSQL, []byte(eventID))
	if err != nil {
		return false, fmt.Errorf("webhook: ignore event %s: %w", eventID, err)
	}
	n, err := res.RowsAffected()
	return n > 0, err
}

// Purge deletes at most limit events that were applied or ignored and came in longer ago than olderThan, which must not be
// below [MinRetention]. It returns how many it deleted.
func (in *Inbox) Purge(ctx context.Context, olderThan time.Duration, limit int) (int, error) {
	if olderThan < MinRetention {
		return 0, fmt.Errorf("webhook: events must be kept for %s, not %s", MinRetention, olderThan)
	}
	res, err := in.db.ExecContext(ctx, purgeSQL, olderThan.Microseconds(), limit)
	if err != nil {
		return 0, fmt.Errorf("webhook: purge: %w", err)
	}
	n, err := res.RowsAffected()
	return int(n), err
}

func (in *Inbox) ids(ctx context.Context, query string, limit int) (out []rowID, err error) {
	rows, err := in.db.QueryContext(ctx, query, limit)
	if err != nil {
		return nil, fmt.Errorf("webhook: read the inbox: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var id rowID
		if err := rows.Scan(&id.user, &id.event); err != nil {
			return nil, fmt.Errorf("webhook: read the inbox: %w", err)
		}
		out = append(out, id)
	}
	return out, rows.Err()
}

// try gives a kept event another attempt, if it is still in the state from. It returns the state that the event is in then,
// or "" when somebody else was faster.
func (in *Inbox) try(ctx context.Context, id rowID, from State) (State, error) {
	var ev Event
	var attempts int
	var got State
	var charged bool
	err := mysql.WithTx(ctx, in.db, func(tx mysql.Querier) error {
		got = ""
		var state State
		var waiting bool
		var payload []byte
		if err := tx.QueryRowContext(ctx, lockSQL, id.user, id.event).Scan(&state, &attempts, &payload, &waiting); err != nil {
			if errors.Is(err, sql.ErrNoRows) {
				return nil
			}
			return fmt.Errorf("lock the event: %w", err)
		}
		if state != from {
			return nil
		}
		ev = ParseEvent(string(id.event), payload)
		if !ev.known() { // kept by an older build for another reason
			got = Ignored
			_, err := tx.ExecContext(ctx, ignoreSQL, id.event)
			return err
		}
		did, err := in.effect(ctx, tx, ev)
		if err != nil {
			return err
		}
		got, charged = Applied, did.ChargedAfterRefusal
		var note any
		if charged {
			note = chargedAfterRefusal
		}
		_, err = tx.ExecContext(ctx, appliedSQL, attempts+1, note, charged, id.user, id.event)
		return err
	})
	if err == nil {
		if charged {
			in.alarmCharged(ctx, ev)
		}
		return got, nil
	}
	if ours(err) {
		return "", fmt.Errorf("webhook: retry event %s: %w", id.event, err)
	}
	return in.failed(ctx, id, ev, from, attempts, err)
}

// failed notes an attempt that brought nothing, unless somebody else has noted one meanwhile.
func (in *Inbox) failed(ctx context.Context, id rowID, ev Event, from State, attempts int, cause error) (State, error) {
	state := Failed
	var next any = backoff(attempts + 1).Microseconds()
	if from == Dead || attempts+1 >= in.maxAttempts {
		state, next = Dead, nil
	}
	res, err := in.db.ExecContext(ctx, failedSQL, state, clip(cause.Error(), maxLastError), next, id.user, id.event, from, attempts)
	if err != nil {
		return "", fmt.Errorf("webhook: retry event %s: %w", id.event, errors.Join(cause, err))
	}
	n, err := res.RowsAffected()
	if err != nil || n == 0 {
		return "", err
	}
	if state == Dead {
		in.log.ErrorContext(ctx, "webhook event set aside: a person has to look", "event_id", string(id.event), "type", ev.Type,
			"user_id", id.user, "charge_id", ev.charge.ID, "attempts", attempts+1, "error", cause)
	}
	return state, nil
}

// lookAgain drops the flag of applied events whose charge no longer stands: the money went back.
func (in *Inbox) lookAgain(ctx context.Context, limit int) error {
	flagged, err := in.ids(ctx, flaggedSQL, limit)
	if err != nil {
		return err
	}
	for _, id := range flagged {
		err := mysql.WithTx(ctx, in.db, func(tx mysql.Querier) error {
			var state State
			var attempts int
			var payload []byte
			var waiting bool
			if err := tx.QueryRowContext(ctx, lockSQL, id.user, id.event).Scan(&state, &attempts, &payload, &waiting); err != nil {
				return fmt.Errorf("lock the event: %w", err)
			}
			if state != Applied || !waiting {
				return nil
			}
			did, err := in.effect(ctx, tx, ParseEvent(string(id.event), payload))
			if err != nil && ours(err) {
				return err
			}
			if err != nil || did.ChargedAfterRefusal {
				return nil // it stays, for the person
			}
			_, err = tx.ExecContext(ctx, settledSQL, id.user, id.event)
			return err
		})
		if err != nil && !mysql.Away(ctx, in.db, err) && ours(err) {
			in.log.WarnContext(ctx, "an event could not be looked at again now", "event_id", string(id.event), "error", err)
			continue
		}
		if err != nil {
			return fmt.Errorf("webhook: look again at event %s: %w", id.event, err)
		}
	}
	return nil
}
