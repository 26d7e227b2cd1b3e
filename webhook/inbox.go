package webhook

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"chargeonce/internal/mysql"
	"chargeonce/internal/payment"
	"chargeonce/internal/psp"
)

const (
	insertSQL = `
		INSERT INTO webhook_events
		  (user_id, event_id, type, charge_id, payload, state, attempts, last_error, received_at, next_attempt_at, applied_at)
		VALUES (?, ?, ?, ?, ?, ?, 1, ?, NOW(3), NOW(3) + INTERVAL ? MICROSECOND, IF(?, NOW(3), NULL))`

	payloadSQL = `SELECT payload FROM webhook_events WHERE user_id = ? AND event_id = ?`

	// The primary key leads with the user, so the same id under another user is another row and has to be looked for.
	elsewhereSQL = `SELECT COUNT(*) FROM webhook_events WHERE event_id = ? AND user_id <> ?`

	// An applied event with a next attempt is one whose effect a person has to make good: it is looked at again until then.
	flagSQL = `
		UPDATE webhook_events SET last_error = ?, next_attempt_at = NOW(3)
		WHERE user_id = ? AND event_id = ?`
)

// chargedAfterRefusal is the last_error of an applied event that says so.
const chargedAfterRefusal = "charged_after_refusal: the key's stored answer is a refusal, and the charge has succeeded"

const (
	// receiveTries bounds how often an event is written again after an answer that was lost. Each run is one transaction
	// behind one primary key, so running it again is safe.
	receiveTries = 8
	maxPause     = 100 * time.Millisecond

	// The pause before a kept event is tried again doubles from the first to the last, jittered.
	firstBackoff = 30 * time.Second
	lastBackoff  = time.Hour

	maxLastError = 1000
)

// DefaultMaxAttempts is how often an event is tried, the receipt included, before it is set aside as dead: with the
// pauses above, for about four hours.
const DefaultMaxAttempts = 10

// State is where an event of the inbox stands.
type State string

// The states of an event.
const (
	Applied State = "applied" // its effect is written
	Ignored State = "ignored" // of an unknown type, or put aside by a person
	Failed  State = "failed"  // could not be applied, and is tried again
	Dead    State = "dead"    // was tried often enough; a person has to look
)

// Outcome is what became of one delivery of an event. All of them but Conflict mean that the PSP need not send it again.
type Outcome string

// The outcomes of a delivery.
const (
	OutcomeApplied  Outcome = "applied"  // kept, and its effect written
	OutcomeIgnored  Outcome = "ignored"  // kept; the type is unknown
	OutcomeKept     Outcome = "kept"     // kept; it could not be applied, and is tried again later
	OutcomeRepeated Outcome = "repeated" // known already; no effect
	OutcomeConflict Outcome = "conflict" // refused: the id is known with another payload
)

// Flow is the part of *payment.Flow that writes what the PSP says of a charge.
type Flow interface {
	Apply(ctx context.Context, tx mysql.Querier, c psp.Charge) (payment.Applied, error)
}

// Inbox keeps events and gives them their effect. It is safe for use by many goroutines and by many processes.
type Inbox struct {
	db          *sql.DB
	flow        Flow
	log         *slog.Logger
	maxAttempts int
}

// NewInbox returns the inbox on a database opened by package mysql. maxAttempts 0 means [DefaultMaxAttempts].
func NewInbox(db *sql.DB, flow Flow, maxAttempts int, log *slog.Logger) *Inbox {
	if maxAttempts == 0 {
		maxAttempts = DefaultMaxAttempts
	}
	return &Inbox{db: db, flow: flow, log: log, maxAttempts: maxAttempts}
}

// errSeen: the event's id is in the inbox already.
var errSeen = errors.New("the event is known")

// errElsewhere: the event's id is in the inbox under another user, so with another payload.
var errElsewhere = errors.New("the event's id is known under another user")

// Receive keeps the event and writes its effect, in one transaction, and returns once that is committed. An event that
// cannot be applied is kept without effect. The error is the database's, and leaves open what was written: the PSP has
// to send the event again. ctx must be bounded, and not be one that a leaving sender cancels.
func (in *Inbox) Receive(ctx context.Context, ev Event) (Outcome, error) {
	var err error
	for n := range receiveTries {
		var out Outcome
		out, err = in.receiveOnce(ctx, ev)
		if err == nil {
			return out, nil
		}
		if !mysql.AnswerLost(err) && !mysql.Contended(err) {
			return "", fmt.Errorf("webhook: event %s: %w", ev.ID, err)
		}
		// The run may be committed or not, or become so only now. The next one waits for its row and then finds it or
		// does the work.
		if mysql.Pause(ctx, n, maxPause) != nil {
			break
		}
	}
	return "", fmt.Errorf("webhook: event %s: not settled: %w", ev.ID, err)
}

func (in *Inbox) receiveOnce(ctx context.Context, ev Event) (Outcome, error) {
	out, err := in.apply(ctx, ev)
	switch {
	case err == nil:
		return out, nil
	case errors.Is(err, errElsewhere):
		return OutcomeConflict, nil
	case errors.Is(err, errSeen):
		return in.compare(ctx, ev)
	case ours(err):
		return "", err
	}
	return in.keep(ctx, ev, err)
}

// ours reports whether the database, and not the event, is at fault.
func ours(err error) bool {
	return mysql.AnswerLost(err) || mysql.Contended(err) || mysql.Unavailable(err)
}

// apply is the one transaction of row and effect. The row comes first: its primary key is the arbiter among repeats.
func (in *Inbox) apply(ctx context.Context, ev Event) (Outcome, error) {
	var out Outcome
	var did payment.Applied
	err := mysql.WithTx(ctx, in.db, func(tx mysql.Querier) error {
		state := Applied
		if out = OutcomeApplied; !ev.known() {
			state, out = Ignored, OutcomeIgnored
		}
		if err := insert(ctx, tx, ev, state, nil, nil); err != nil {
			return err
		}
		if state == Ignored {
			return nil
		}
		var err error
		if did, err = in.effect(ctx, tx, ev); err != nil || !did.ChargedAfterRefusal {
			return err
		}
		return flag(ctx, tx, ev)
	})
	if err == nil && did.ChargedAfterRefusal {
		in.alarmCharged(ctx, ev)
	}
	return out, err
}

// effect writes what the event says of its charge.
func (in *Inbox) effect(ctx context.Context, tx mysql.Querier, ev Event) (payment.Applied, error) {
	if ev.problem != "" {
		return payment.Applied{}, errors.New(ev.problem)
	}
	return in.flow.Apply(ctx, tx, ev.charge)
}

// keep writes the row of an event that could not be applied, so that reconciliation tries it again: a repeat from the PSP
// would bring nothing new.
func (in *Inbox) keep(ctx context.Context, ev Event, cause error) (Outcome, error) {
	next := backoff(1)
	err := mysql.WithTx(ctx, in.db, func(tx mysql.Querier) error {
		return insert(ctx, tx, ev, Failed, cause, &next)
	})
	switch {
	case err == nil:
		in.log.ErrorContext(ctx, "webhook event kept: it cannot be applied", "event_id", ev.ID, "type", ev.Type,
			"user_id", ev.userID(), "charge_id", ev.charge.ID, "error", cause)
		return OutcomeKept, nil
	case errors.Is(err, errElsewhere):
		return OutcomeConflict, nil
	case errors.Is(err, errSeen):
		return in.compare(ctx, ev)
	}
	return "", err
}

// compare tells a repeat from another event under the same id.
func (in *Inbox) compare(ctx context.Context, ev Event) (Outcome, error) {
	var payload []byte
	if err := in.db.QueryRowContext(ctx, payloadSQL, ev.userID(), []byte(ev.ID)).Scan(&payload); err != nil {
		return "", fmt.Errorf("read the event: %w", err)
	}
	if bytes.Equal(payload, ev.Payload) {
		return OutcomeRepeated, nil
	}
	return OutcomeConflict, nil
}

func (in *Inbox) alarmCharged(ctx context.Context, ev Event) {
	in.log.ErrorContext(ctx, "charged after a refusal: a person has to make it good", "event_id", ev.ID,
		"user_id", ev.userID(), "payment_id", ev.charge.Metadata.PaymentID, "charge_id", ev.charge.ID)
}

// insert writes the event's row: errSeen or errElsewhere when there is one. cause and next are nil unless it failed.
func insert(ctx context.Context, tx mysql.Querier, ev Event, state State, cause error, next *time.Duration) error {
	var lastError, after any
	if cause != nil {
		lastError = clip(cause.Error(), maxLastError)
	}
	if next != nil {
		after = next.Microseconds()
	}
	_, err := tx.ExecContext(ctx, insertSQL, ev.userID(), []byte(ev.ID), clip(ev.Type, maxType), ev.chargeID(), ev.Payload,
		state, lastError, after, state == Applied)
	if mysql.Duplicate(err) {
		return errSeen
	}
	if err != nil {
		return fmt.Errorf("insert the event: %w", err)
	}
	var others int
	if err := tx.QueryRowContext(ctx, elsewhereSQL, []byte(ev.ID), ev.userID()).Scan(&others); err != nil {
		return fmt.Errorf("look for the event's id: %w", err)
	}
	if others > 0 {
		return errElsewhere
	}
	return nil
}

func flag(ctx context.Context, tx mysql.Querier, ev Event) error {
	if _, err := tx.ExecContext(ctx, flagSQL, chargedAfterRefusal, ev.userID(), []byte(ev.ID)); err != nil {
		return fmt.Errorf("flag the event: %w", err)
	}
	return nil
}

// backoff is the pause after the given number of attempts: uniform in the upper half of min(lastBackoff, firstBackoff·2ⁿ⁻¹).
func backoff(attempts int) time.Duration {
	d := min(lastBackoff, firstBackoff<<min(attempts-1, 20))
	return d/2 + rand.N(d/2+1)
}
