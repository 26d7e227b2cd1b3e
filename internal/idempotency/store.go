package idempotency

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"chargeonce/internal/mysql"
)

const (
	recordColumns = `user_id, idem_key, request_hash, hash_version, status, lease, holder,
		TIMESTAMPDIFF(MICROSECOND, NOW(3), locked_until), TIMESTAMPDIFF(MICROSECOND, attempted_at, NOW(3)),
		TIMESTAMPDIFF(MICROSECOND, created_at, NOW(3)),
		payment_id, order_id, amount, currency, response_code, response_body, parked_for, locked_until, created_at,
		open_order IS NOT NULL, IFNULL(traceparent, '')`

	readSQL = `SELECT ` + recordColumns + ` FROM idempotency_keys WHERE user_id = ? AND idem_key = ?`

	lockByPaymentSQL = `SELECT ` + recordColumns + ` FROM idempotency_keys WHERE user_id = ? AND payment_id = ? FOR UPDATE`
	byPaymentSQL     = `SELECT ` + recordColumns + ` FROM idempotency_keys WHERE user_id = ? AND payment_id = ?`

	byOrderSQL = `SELECT ` + recordColumns + ` FROM idempotency_keys WHERE user_id = ? AND open_order = ?`

	// A take-over is a compare-and-set on all that was read: of two that read the same lease one wins, and the other's writes,
	// its release too, match no row. attempted_at and traceparent are changed only when the new holder may charge.
	takeOverSQL = `
		UPDATE idempotency_keys
		SET lease = ?, holder = ?, locked_until = NOW(3) + INTERVAL ? MICROSECOND,
		    attempted_at = IF(?, NOW(3), attempted_at), traceparent = IF(?, ?, traceparent)
		WHERE user_id = ? AND idem_key = ? AND status = 'processing' AND lease = ? AND holder = ? AND locked_until <= NOW(3)`

	finishSQL = `
		UPDATE idempotency_keys
		SET status = 'done', response_code = ?, response_body = ?, completed_at = NOW(3), open_order = IF(?, NULL, open_order)
		WHERE user_id = ? AND idem_key = ? AND status = 'processing' AND lease = ? AND holder = ?`

	restoreSQL = `
		UPDATE idempotency_keys
		SET response_code = ?, response_body = ?, open_order = IF(?, NULL, open_order)
		WHERE user_id = ? AND idem_key = ? AND status = 'done' AND lease = ? AND holder = ?`

	releaseSQL = `
		UPDATE idempotency_keys
		SET locked_until = NOW(3)
		WHERE user_id = ? AND idem_key = ? AND status = 'processing' AND lease = ? AND holder = ?`

	dropBodySQL = `
		UPDATE idempotency_keys
		SET response_body = NULL
		WHERE user_id = ? AND idem_key = ? AND status = 'done' AND lease = ? AND holder = ?`

	freeOrderSQL = `UPDATE idempotency_keys SET open_order = NULL WHERE user_id = ? AND idem_key = ?`

	parkSQL = `
		UPDATE idempotency_keys
		SET status = 'parked', parked_for = ?, completed_at = NOW(3)
		WHERE user_id = ? AND idem_key = ? AND status = 'processing' AND lease = ? AND holder = ?`

	stuckSQL = `SELECT ` + recordColumns + `
		FROM idempotency_keys
		WHERE status = 'processing' AND locked_until <= NOW(3) - INTERVAL ? MICROSECOND
		  AND locked_until >= ? AND (locked_until, user_id, idem_key) > (?, ?, ?)
		ORDER BY locked_until, user_id, idem_key
		LIMIT ?`
)

// settleTries bounds how often one call goes back to the database to learn what became of its own statement, or because
// somebody else was faster. Every round is a new fact about the row, so a few suffice; the caller's context bounds them too.
const settleTries = 8

const maxPause = 100 * time.Millisecond

// Store is the lease store, on one database. It is safe for use by many goroutines.
type Store struct {
	db     *sql.DB
	insert func(context.Context, newRow) error
}

// NewStore returns the store on db, which must have been opened by package mysql.
func NewStore(db *sql.DB) *Store {
	return &Store{db: db, insert: func(ctx context.Context, r newRow) error { return insertOne(ctx, db, r) }}
}

// NewCoalescingStore is [NewStore] for a busy server: claims that wait at the same time share a statement and its commit, which
// timeout bounds. What it promises is the same.
func NewCoalescingStore(db *sql.DB, timeout time.Duration) *Store {
	return &Store{db: db, insert: newClaims(db, timeout).insert}
}

// Acquired is what a claim came to: the lease; or, when Done, the answer that the key has already, in its record.
type Acquired struct {
	Lease Lease
	// Record is the key's row when the key was there before; nil for a new key.
	Record *Record
}

// Done reports whether the key has its final answer, and so no lease was granted.
func (a Acquired) Done() bool { return a.Record != nil && a.Record.Status == Done }

// Acquire claims the key, or takes it over when its lease is over. The errors are [ErrReused], [ErrParked], *[InProgressError],
// *[OrderOpenError], and those of the database; after one of the latter the claim may have been made or not, and the lease then ends by itself.
// ctx must not be one that a leaving client cancels: of inserts that are cancelled, most have committed.
func (s *Store) Acquire(ctx context.Context, c Claim) (Acquired, error) {
	print, err := NewFingerprint(FingerprintVersion, c.RPC, c.Request)
	if err != nil {
		return Acquired{}, err
	}
	// One holder for all that this call tries: whatever answer is lost, the row says by holder whether it is ours.
	holder := uuid.New()
	mine := Lease{UserID: c.UserID, Key: c.Key, Token: 1, Holder: holder,
		PaymentID: c.PaymentID, OrderID: c.OrderID, Amount: c.Amount, Currency: c.Currency}

	insert := true
	for n := range settleTries {
		if insert {
			err = s.insert(ctx, newRow{Claim: c, print: print, holder: holder, trace: traceparent(ctx)})
			if err == nil {
				return Acquired{Lease: mine}, nil
			}
			if mysql.Contended(err) {
				if mysql.Pause(ctx, n, maxPause) != nil {
					return Acquired{}, fmt.Errorf("claim: %w", err)
				}
				continue
			}
			if !taken(err) && !mysql.AnswerLost(err) {
				return Acquired{}, fmt.Errorf("claim: %w", err)
			}
		}
		row, readErr := s.Read(ctx, c.UserID, c.Key)
		if errors.Is(readErr, ErrNotFound) {
			if taken(err) && c.OnePerOrder {
				// The other arbiter: not this key's row is there, but one for its order. The error's text would say which, in
				// words that hold the client's own order_id; the rows can't be forged.
				if err := s.openOrder(ctx, c); err != nil {
					return Acquired{}, err
				}
			}
			insert = true // the lost INSERT did not arrive, or what it met is gone
			continue
		}
		if readErr != nil {
			err = readErr // what the insert met, if anything, says no more than this
			if !mysql.AnswerLost(err) || mysql.Pause(ctx, n, maxPause) != nil {
				return Acquired{}, fmt.Errorf("claim: %w", err)
			}
			continue
		}
		insert = false
		got, again, judgeErr := s.judge(ctx, c, row, holder)
		if !again {
			return got, judgeErr
		}
		err = judgeErr
		if err != nil && mysql.Pause(ctx, n, maxPause) != nil {
			break
		}
	}
	if err == nil && ctx.Err() == nil {
		return Acquired{}, &InProgressError{} // others take the key over from one another, faster than this call can
	}
	return Acquired{}, fmt.Errorf("claim: not settled: %w", errors.Join(err, ctx.Err()))
}

// taken reports whether an insert failed since a row is there that it met.
func taken(err error) bool { return mysql.Duplicate(err) || errors.Is(err, errNotOurs) }

// openOrder returns an *[OrderOpenError] if another key holds the order, nil if none does any more.
func (s *Store) openOrder(ctx context.Context, c Claim) error {
	row, err := scanOne(s.db.QueryRowContext(ctx, byOrderSQL, c.UserID, c.OrderID))
	switch {
	case errors.Is(err, ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("claim: %w", err)
	case row.Key == c.Key:
		return nil // the order became free, and another request with this very key was faster: it is read as any duplicate
	}
	return &OrderOpenError{Record: row}
}

// FreeOrder lets another key pay the order of this one, whose charge has failed after all. q may be a transaction.
func (s *Store) FreeOrder(ctx context.Context, q mysql.Querier, r Record) error {
	if _, err := q.ExecContext(ctx, freeOrderSQL, r.UserID, []byte(r.Key.s)); err != nil {
		return fmt.Errorf("free the order: %w", err)
	}
	return nil
}

// judge decides by a row that was there before, or is ours after a lost answer. again asks for another round, since the row
// has changed under it or the take-over's answer was lost (then with the error).
func (s *Store) judge(ctx context.Context, c Claim, row Record, holder uuid.UUID) (got Acquired, again bool, err error) {
	if row.Holder == holder && row.Status == Processing {
		return Acquired{Lease: row.held(), Record: &row}, false, nil
	}
	print, err := NewFingerprint(row.HashVersion, c.RPC, c.Request)
	if err != nil {
		return Acquired{}, false, err
	}
	if print != row.Fingerprint {
		return Acquired{}, false, ErrReused
	}
	switch row.Status {
	case Done:
		return Acquired{Record: &row}, false, nil
	case Parked:
		return Acquired{Record: &row}, false, ErrParked
	case Processing:
		if row.LeaseLeft > 0 {
			return Acquired{Record: &row}, false, &InProgressError{LeaseLeft: row.LeaseLeft}
		}
	}
	lease, err := s.compareAndSet(ctx, row, holder, c.TTL, true)
	switch {
	case err == nil:
		return Acquired{Lease: lease, Record: &row}, false, nil
	case errors.Is(err, ErrLeaseLost):
		return Acquired{}, true, nil // somebody was faster: what the row says now decides
	case mysql.Contended(err), mysql.AnswerLost(err):
		return Acquired{}, true, err
	}
	return Acquired{}, false, fmt.Errorf("take over: %w", err)
}

// TakeOver takes the lease of an expired row for ttl on behalf of reconciliation, which asks the PSP and never charges: so the
// time of the last attempt stays what it was. [ErrLeaseLost] means that somebody was faster; row must have been read just before.
func (s *Store) TakeOver(ctx context.Context, row Record, ttl time.Duration) (Lease, error) {
	holder := uuid.New()
	var err error
	for n := range settleTries {
		var lease Lease
		lease, err = s.compareAndSet(ctx, row, holder, ttl, false)
		if err == nil || errors.Is(err, ErrLeaseLost) && n == 0 {
			return lease, err
		}
		if !mysql.Contended(err) && !mysql.AnswerLost(err) && !errors.Is(err, ErrLeaseLost) {
			return Lease{}, fmt.Errorf("take over: %w", err)
		}
		now, readErr := s.Read(ctx, row.UserID, row.Key)
		if readErr == nil {
			if now.Holder == holder && now.Status == Processing {
				return now.held(), nil
			}
			if now.Lease != row.Lease || now.Holder != row.Holder || now.Status != Processing {
				return Lease{}, ErrLeaseLost
			}
		}
		if mysql.Pause(ctx, n, maxPause) != nil {
			break
		}
	}
	return Lease{}, fmt.Errorf("take over: not settled: %w", errors.Join(err, ctx.Err()))
}

func (s *Store) compareAndSet(ctx context.Context, row Record, holder uuid.UUID, ttl time.Duration, attempt bool) (Lease, error) {
	res, err := s.db.ExecContext(ctx, takeOverSQL, row.Lease+1, holder[:], ttl.Microseconds(), attempt, attempt, traceparent(ctx),
		row.UserID, []byte(row.Key.s), row.Lease, row.Holder[:])
	if err := fenced(res, err); err != nil {
		return Lease{}, err
	}
	row.Lease, row.Holder = row.Lease+1, holder
	return row.held(), nil
}

// Finish stores the answer and marks the key done, inside the caller's transaction; freeOrder says that the order was not paid
// and another key may pay it. [ErrLeaseLost]: roll back and read again.
func (s *Store) Finish(ctx context.Context, tx mysql.Querier, l Lease, a Stored, freeOrder bool) error {
	return fenced(tx.ExecContext(ctx, finishSQL, a.Code, a.Body, freeOrder, l.UserID, []byte(l.Key.s), l.Token, l.Holder[:]))
}

// Restate replaces the answer that Finish stored earlier in the same transaction.
func (s *Store) Restate(ctx context.Context, tx mysql.Querier, l Lease, a Stored, freeOrder bool) error {
	return fenced(tx.ExecContext(ctx, restoreSQL, a.Code, a.Body, freeOrder, l.UserID, []byte(l.Key.s), l.Token, l.Holder[:]))
}

// DropBody drops the stored body of a done key, which the caller can make again. [ErrLeaseLost]: the row is not what was read.
func (s *Store) DropBody(ctx context.Context, r Record) error {
	return fenced(s.db.ExecContext(ctx, dropBodySQL, r.UserID, []byte(r.Key.s), r.Lease, r.Holder[:]))
}

// Release ends the lease now, so that a retry goes in at once. It must not be called while a finish under the same lease may
// still be running. [ErrLeaseLost] says that there was nothing to release any more. Releasing twice is harmless, so a lost
// answer is simply tried again.
func (s *Store) Release(ctx context.Context, l Lease) error {
	return s.repeat(ctx, "release", func() error {
		return fenced(s.db.ExecContext(ctx, releaseSQL, l.UserID, []byte(l.Key.s), l.Token, l.Holder[:]))
	})
}

// Park puts the key aside for a person, with the reason. A key that this very lease has parked already is no error.
func (s *Store) Park(ctx context.Context, l Lease, reason string) error {
	err := s.repeat(ctx, "park", func() error {
		return fenced(s.db.ExecContext(ctx, parkSQL, clip(reason, 255), l.UserID, []byte(l.Key.s), l.Token, l.Holder[:]))
	})
	if !errors.Is(err, ErrLeaseLost) {
		return err
	}
	row, readErr := s.Read(ctx, l.UserID, l.Key)
	if readErr == nil && row.Status == Parked && row.HeldBy(l) {
		return nil // the first answer was lost
	}
	return errors.Join(err, readErr)
}

// repeat runs a write whose second run does no harm until an answer to it is read.
func (s *Store) repeat(ctx context.Context, what string, write func() error) error {
	var err error
	for n := range settleTries {
		if err = write(); err == nil || !mysql.Contended(err) && !mysql.AnswerLost(err) {
			break
		}
		if mysql.Pause(ctx, n, maxPause) != nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// fenced turns "no row matched" into ErrLeaseLost. With clientFoundRows the count is of rows matched, changed or not.
func fenced(res sql.Result, err error) error {
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err != nil {
		return err
	}
	if n == 0 {
		return ErrLeaseLost
	}
	return nil
}

func clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n])
	}
	return s
}
