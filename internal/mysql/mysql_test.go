package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"chargeonce/internal/mysql"
)

func testCtx(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestConfigRefusesWhatWouldBreakTheRules(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, dsn, want string }{
		{"no DSN at all", "nonsense", "does not parse"},
		{"no database", "u:p@tcp(127.0.0.1:3306)/", "names no database"},
		{"several statements in one", "u:p@tcp(127.0.0.1:3306)/d?multiStatements=true", "multiStatements"},
		{"another isolation", "u:p@tcp(127.0.0.1:3306)/d?transaction_isolation=%27REPEATABLE-READ%27", "transaction_isolation"},
		{"no autocommit", "u:p@tcp(127.0.0.1:3306)/d?autocommit=0", "autocommit"},
		{"another time zone", "u:p@tcp(127.0.0.1:3306)/d?time_zone=%27SYSTEM%27", "time_zone"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := mysql.Config(tc.dsn, mysql.Options{})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v; want one that says %q", err, tc.want)
			}
		})
	}
}

func TestSessionFollowsTheRules(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	var isolation, mode, zone string
	var lockWait, wait, autocommit int
	err := db.QueryRowContext(testCtx(t), `SELECT @@transaction_isolation, @@sql_mode, @@time_zone, @@innodb_lock_wait_timeout,
		@@wait_timeout, @@autocommit`).Scan(&isolation, &mode, &zone, &lockWait, &wait, &autocommit)
	if err != nil {
		t.Fatal(err)
	}
	if isolation != "READ-COMMITTED" || zone != "+00:00" || lockWait != 2 || wait != 60 || autocommit != 1 || !strings.Contains(mode, "STRICT_ALL_TABLES") {
		t.Errorf("isolation %s, zone %s, lock wait %d, wait %d, autocommit %d, mode %s", isolation, zone, lockWait, wait, autocommit, mode)
	}
	if _, err := db.ExecContext(testCtx(t), `INSERT INTO reconcile_marks VALUES (REPEAT('x', 65), NOW(3), NOW(3))`); err == nil {
		t.Error("a value that is too long was cut in place of refused")
	}
}

func TestAnUpdateThatChangesNoBytesCountsItsRow(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	exec(t, db.DB, `INSERT INTO reconcile_marks VALUES ('m', '2026-01-01', '2026-01-01')`)
	res, err := db.ExecContext(testCtx(t), `UPDATE reconcile_marks SET mark = '2026-01-01' WHERE name = 'm'`)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := res.RowsAffected(); err != nil || n != 1 {
		t.Errorf("rows %d, error %v; want 1 row", n, err)
	}
}

func exec(t *testing.T, q mysql.Querier, statement string, args ...any) {
	t.Helper()
	if _, err := q.ExecContext(testCtx(t), statement, args...); err != nil {
		t.Fatal(err)
	}
}

func count(t *testing.T, q mysql.Querier, query string, args ...any) int {
	t.Helper()
	var n int
	if err := q.QueryRowContext(testCtx(t), query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

const insertMark = `INSERT INTO reconcile_marks VALUES (?, NOW(3), NOW(3))`

func TestWithTxCommitsOrRollsBack(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	ctx := testCtx(t)
	if err := mysql.WithTx(ctx, db.DB, func(tx mysql.Querier) error {
		exec(t, tx, insertMark, "kept")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	if err := mysql.WithTx(ctx, db.DB, func(tx mysql.Querier) error {
		exec(t, tx, insertMark, "undone")
		return boom
	}); !errors.Is(err, boom) {
		t.Fatalf("error %v; want fn's own", err)
	}
	if n := count(t, db, `SELECT COUNT(*) FROM reconcile_marks WHERE name = 'undone'`); n != 0 {
		t.Error("what a failed transaction wrote is there")
	}
	if n := count(t, db, `SELECT COUNT(*) FROM reconcile_marks WHERE name = 'kept'`); n != 1 {
		t.Error("what a transaction wrote is not there")
	}
}

func TestWithTxGivesItsLocksBackWhenTheCallersTimeIsOver(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	exec(t, db, insertMark, "m")
	ctx, cancel := context.WithCancel(testCtx(t))
	err := mysql.WithTx(ctx, db.DB, func(tx mysql.Querier) error {
		exec(t, tx, `UPDATE reconcile_marks SET mark = '2020-01-01' WHERE name = 'm'`)
		cancel()
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	// Waits for the lock if it is still held, and then fails on the lock wait time-out.
	exec(t, db, `UPDATE reconcile_marks SET mark = '2021-01-01' WHERE name = 'm'`)
}

func TestWithTxDoesNotPoolAConnectionWhoseTransactionIsOpen(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	db.SetMaxOpenConns(1)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic of fn was lost")
			}
		}()
		if err := mysql.WithTx(testCtx(t), db.DB, func(tx mysql.Querier) error {
			exec(t, tx, insertMark, "undone")
			panic("boom")
		}); err != nil {
			t.Error(err)
		}
	}()
	if n := count(t, db, `SELECT COUNT(*) FROM reconcile_marks`); n != 0 {
		t.Error("the next user of the connection sees the transaction that panicked")
	}
}

// Two transactions lock two rows in opposite order, each waiting for the other to have its first: one must be run again.
func TestWithTxRunsTheLoserOfADeadlockAgain(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	exec(t, db, insertMark, "a")
	exec(t, db, insertMark, "b")
	var firstA, firstB = make(chan struct{}), make(chan struct{})
	move := func(first, second string, mine, other chan struct{}) error {
		runs := 0
		return mysql.WithTx(testCtx(t), db.DB, func(tx mysql.Querier) error {
			runs++
			if _, err := tx.ExecContext(testCtx(t), `UPDATE reconcile_marks SET mark = '2020-01-01' WHERE name = ?`, first); err != nil {
				return err
			}
			if runs == 1 {
				close(mine)
				<-other
			}
			_, err := tx.ExecContext(testCtx(t), `UPDATE reconcile_marks SET mark = '2020-01-01' WHERE name = ?`, second)
			return err
		})
	}
	got := make(chan error, 2)
	go func() { got <- move("a", "b", firstA, firstB) }()
	go func() { got <- move("b", "a", firstB, firstA) }()
	for range 2 {
		if err := <-got; err != nil {
			t.Errorf("a transaction that met a deadlock failed: %v", err)
		}
	}
}

func TestErrorsSayWhatIsKnown(t *testing.T) {
	t.Parallel()
	direct := mysql.NewTestDB(t)
	proxy := mysql.NewFaultProxy(t, direct.DSN)
	db, err := mysql.Open(proxy.DSN, mysql.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	insert := func(name string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err := db.ExecContext(ctx, insertMark, name)
		return err
	}
	there := func(name string) int {
		return count(t, direct, `SELECT COUNT(*) FROM reconcile_marks WHERE name = ?`, name)
	}
	exec(t, direct, insertMark, "twice")

	for _, tc := range []struct {
		name                         string
		fault                        *mysql.FaultKind
		lost, unavailable, duplicate bool
		rows                         int
	}{
		{name: "twice", duplicate: true, rows: 1},
		{name: "lost-before", fault: kind(mysql.LoseStatement), lost: true, unavailable: true},
		{name: "lost-after", fault: kind(mysql.LoseAnswer), lost: true, unavailable: true, rows: 1},
		{name: "silent", fault: kind(mysql.SwallowAnswer), lost: true, unavailable: true, rows: 1},
	} {
		if tc.fault != nil {
			proxy.Inject(mysql.Fault{Kind: *tc.fault, Match: "'" + tc.name + "'"})
		}
		err := insert(tc.name)
		if err == nil {
			t.Errorf("%s: no error", tc.name)
		}
		if got := mysql.AnswerLost(err); got != tc.lost {
			t.Errorf("%s: AnswerLost(%v) = %v", tc.name, err, got)
		}
		if got := mysql.Unavailable(err); got != tc.unavailable {
			t.Errorf("%s: Unavailable(%v) = %v", tc.name, err, got)
		}
		if got := mysql.Duplicate(err); got != tc.duplicate {
			t.Errorf("%s: Duplicate(%v) = %v", tc.name, err, got)
		}
		if got := there(tc.name); got != tc.rows {
			t.Errorf("%s: %d rows; want %d", tc.name, got, tc.rows)
		}
	}
	if mysql.AnswerLost(sql.ErrNoRows) || mysql.AnswerLost(nil) || mysql.Unavailable(nil) {
		t.Error("no row, or no error, is taken for a lost answer")
	}
}

func kind(k mysql.FaultKind) *mysql.FaultKind { return &k }

func TestALostCommitIsACommitError(t *testing.T) {
	t.Parallel()
	direct := mysql.NewTestDB(t)
	for _, tc := range []struct {
		kind mysql.FaultKind
		rows int
	}{{mysql.LoseStatement, 0}, {mysql.LoseAnswer, 1}, {mysql.SwallowAnswer, 1}} {
		proxy := mysql.NewFaultProxy(t, direct.DSN)
		db, err := mysql.Open(proxy.DSN, mysql.Options{})
		if err != nil {
			t.Fatal(err)
		}
		proxy.Inject(mysql.Fault{Kind: tc.kind, Match: "COMMIT"})
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		err = mysql.WithTx(ctx, db, func(tx mysql.Querier) error {
			_, err := tx.ExecContext(ctx, insertMark, "m")
			return err
		})
		cancel()
		var commit *mysql.CommitError
		if !errors.As(err, &commit) || !mysql.AnswerLost(err) {
			t.Errorf("fault %d: error %v; want a CommitError", tc.kind, err)
		}
		if n := count(t, direct, `SELECT COUNT(*) FROM reconcile_marks`); n != tc.rows {
			t.Errorf("fault %d: %d rows; want %d", tc.kind, n, tc.rows)
		}
		exec(t, direct, `DELETE FROM reconcile_marks`)
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestWaitTellsAServerThatIsDownFromOneThatRefuses(t *testing.T) {
	t.Parallel()
	good := mysql.NewTestDB(t)
	for _, tc := range []struct{ name, dsn, want string }{
		{"down", "u:p@tcp(127.0.0.1:1)/d", "not reachable in time"},
		{"refuses", wrongPassword(t, good.DSN), "Access denied"},
	} {
		db, err := mysql.Open(tc.dsn, mysql.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		if tc.name == "refuses" {
			ctx, cancel = context.WithTimeout(t.Context(), 30*time.Second)
		}
		if err := mysql.Wait(ctx, db, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v; want one that says %q", tc.name, err, tc.want)
		}
		cancel()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

func wrongPassword(t *testing.T, dsn string) string {
	t.Helper()
	cfg, err := mysql.Config(dsn, mysql.Options{})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Passwd = "wrong"
	return cfg.FormatDSN()
}
