package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"time"

	"github.com/go-sql-driver/mysql"
)

// MySQL's error numbers that this service acts on (MySQL Server Error Message Reference).
const (
	erServerShutdown   = 1053
	erDupEntry         = 1062
	erLockWaitTimeout  = 1205
	erDeadlock         = 1213
	erTooManyConns     = 1040
	erUserLimit        = 1226
	erOptionPrevents   = 1290 // --read-only
	erReadOnlyTx       = 1792
	erReadOnlyMode     = 1836
	erQueryInterrupted = 1317
	erQueryTimeout     = 3024
	erClientTimeout    = 4031
)

func number(err error) uint16 {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}

// Duplicate reports whether a unique key, the primary one included, already holds the row (1062).
func Duplicate(err error) bool { return number(err) == erDupEntry }

// Contended reports whether the statement lost to another one and may simply be run again: a deadlock (1213) or a lock
// that was not had in time (1205). The whole transaction has to be run again, since 1213 has rolled it back.
func Contended(err error) bool {
	n := number(err)
	return n == erDeadlock || n == erLockWaitTimeout
}

// AnswerLost reports whether err leaves open what the server did: the connection broke, or the time was over, with no
// answer read. The statement, or the COMMIT, may have taken effect, and may still do so after this returns.
func AnswerLost(err error) bool {
	if err == nil || errors.Is(err, sql.ErrNoRows) {
		return false
	}
	var commit *CommitError
	if errors.As(err, &commit) {
		return true
	}
	if n := number(err); n != 0 {
		// The server answered with an error: the statement did nothing. Of these two it may have been in two minds.
		return n == erServerShutdown || n == erClientTimeout
	}
	return brokenConn(err)
}

func brokenConn(err error) bool {
	var netErr net.Error
	return errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) ||
		errors.Is(err, sql.ErrTxDone) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		errors.Is(err, mysql.ErrPktSync) || errors.Is(err, mysql.ErrMalformPkt) || errors.As(err, &netErr)
}

// Unavailable reports whether the database, and not the statement, is at fault: it cannot be reached, refuses connections,
// is read-only or shutting down, or did not answer in time. Trying again later makes sense.
func Unavailable(err error) bool {
	if err == nil || errors.Is(err, sql.ErrNoRows) {
		return false
	}
	switch number(err) {
	case 0:
		var commit *CommitError
		return errors.As(err, &commit) || brokenConn(err)
	case erServerShutdown, erTooManyConns, erUserLimit, erOptionPrevents, erReadOnlyTx, erReadOnlyMode, erQueryInterrupted,
		erQueryTimeout, erClientTimeout, erDeadlock, erLockWaitTimeout:
		return true
	}
	return false
}

// Away reports whether err came of a database that is away. It asks the database itself: an error that [Unavailable] takes for one
// may also come of a single row that somebody keeps locked, and whoever goes through many rows must not stop at that one.
func Away(ctx context.Context, db *sql.DB, err error) bool {
	if !Unavailable(err) {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second) // ctx's own time may be what is over
	defer cancel()
	return db.PingContext(ctx) != nil
}

// Pause sleeps before try n+1 (n counts from 0) with full jitter: uniform in [0, min(most, 5 ms · 2ⁿ)]. It returns ctx's error if
// that ends first.
func Pause(ctx context.Context, n int, most time.Duration) error {
	d := min(most, 5*time.Millisecond<<min(n, 20))
	t := time.NewTimer(rand.N(d + 1))
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
