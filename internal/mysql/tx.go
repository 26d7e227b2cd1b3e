package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"
)

// Querier runs statements: a pool (each statement commits by itself) or a transaction of [WithTx].
type Querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// CommitError says that COMMIT was sent and not answered with a yes: the transaction may be committed or not, or become so
// only now. The caller settles it by reading what the transaction would have written.
type CommitError struct{ Err error }

func (e *CommitError) Error() string { return "commit: " + e.Err.Error() }

// Unwrap gives the driver's error.
func (e *CommitError) Unwrap() error { return e.Err }

const (
	// txTries bounds how often a transaction that lost to another one is run.
	txTries  = 5
	maxPause = 100 * time.Millisecond
	// rollbackTimeout bounds the ROLLBACK after a failure. A connection that does not roll back in time is closed, and the
	// server then rolls back by itself.
	rollbackTimeout = time.Second
)

// WithTx runs fn in one transaction and commits it, or rolls it back when fn fails. fn may run several times: after a
// deadlock or a lock that was not had (see [Contended]) all of it is run again, at most five times in all, after a jittered
// pause. So fn must keep no result of a run that failed. Errors of fn are returned as they are; a COMMIT without a yes is a
// *[CommitError].
//
// database/sql's own Tx is not used: its Commit takes no context, so a COMMIT whose answer is lost would hold the caller
// for the whole I/O time-out of the connection.
func WithTx(ctx context.Context, db *sql.DB, fn func(Querier) error) error {
	for n := 0; ; n++ {
		err := once(ctx, db, fn)
		if !Contended(err) || n == txTries-1 {
			return err
		}
		if Pause(ctx, n, maxPause) != nil {
			return err
		}
	}
}

func once(ctx context.Context, db *sql.DB, fn func(Querier) error) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	open := true // until COMMIT or ROLLBACK is known to have ended it, the connection must not go back to the pool
	defer func() {
		if open {
			// A driver.ErrBadConn from Raw is how database/sql is told to close a connection in place of pooling it.
			if rawErr := conn.Raw(func(any) error { return driver.ErrBadConn }); !errors.Is(rawErr, driver.ErrBadConn) && !errors.Is(rawErr, sql.ErrConnDone) {
				err = errors.Join(err, rawErr)
			}
		}
		if closeErr := conn.Close(); closeErr != nil && !errors.Is(closeErr, sql.ErrConnDone) {
			err = errors.Join(err, closeErr)
		}
	}()

	if _, err := conn.ExecContext(ctx, "START TRANSACTION"); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err := fn(conn); err != nil {
		// A caller whose time is over still gives its locks back at once.
		rbCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		if _, rbErr := conn.ExecContext(rbCtx, "ROLLBACK"); rbErr == nil {
			open = false
		}
		return err
	}
	if _, err := conn.ExecContext(ctx, "COMMIT"); err != nil {
		return &CommitError{Err: err}
	}
	open = false
	return nil
}
