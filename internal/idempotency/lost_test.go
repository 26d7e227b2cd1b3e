package idempotency_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"chargeonce/internal/idempotency"
	"chargeonce/internal/mysql"
)

// behind opens a pool through a proxy that loses things, and a store on it.
func behind(t *testing.T, newStore newStore, direct *mysql.TestDB) (*mysql.FaultProxy, *sql.DB, *idempotency.Store) {
	t.Helper()
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
	return proxy, db, newStore(db)
}

var losses = []struct {
	name string
	kind mysql.FaultKind
}{{"the statement is lost", mysql.LoseStatement}, {"the answer is lost", mysql.LoseAnswer}}

func testAClaimWhoseStatementOrAnswerIsLostIsStillOurs(t *testing.T, newStore newStore) {
	t.Parallel()
	direct := mysql.NewTestDB(t)
	for _, loss := range losses {
		proxy, _, s := behind(t, newStore, direct)
		proxy.Inject(mysql.Fault{Kind: loss.kind, Match: "INSERT INTO idempotency_keys"})
		l := acquire(t, s, claim(t, loss.name, "100"))
		row := read(t, newStore(direct.DB), loss.name)
		if l.Token != 1 || !row.HeldBy(l) || row.Status != idempotency.Processing {
			t.Errorf("%s: lease %+v, row %+v", loss.name, l, row)
		}
		if n := proxy.Fired("INSERT INTO idempotency_keys"); n != 1 {
			t.Errorf("%s: the fault fired %d times", loss.name, n)
		}
	}
}

func testATakeOverWhoseStatementOrAnswerIsLostIsStillOurs(t *testing.T, newStore newStore) {
	t.Parallel()
	direct := mysql.NewTestDB(t)
	for _, loss := range losses {
		proxy, _, s := behind(t, newStore, direct)
		take := map[string]func() (idempotency.Lease, error){
			"retry": func() (idempotency.Lease, error) {
				got, err := s.Acquire(testCtx(t), claim(t, loss.name+"retry", "100"))
				return got.Lease, err
			},
			"reconcile": func() (idempotency.Lease, error) {
				return s.TakeOver(testCtx(t), read(t, s, loss.name+"reconcile"), time.Hour)
			},
		}
		for who, do := range take {
			key := loss.name + who
			acquire(t, s, claim(t, key, "100"))
			expire(t, direct, key)
			proxy.Inject(mysql.Fault{Kind: loss.kind, Match: "SET lease = 2"})
			l, err := do()
			row := read(t, newStore(direct.DB), key)
			if err != nil || l.Token != 2 || !row.HeldBy(l) {
				t.Errorf("%s, %s: lease %+v, %v, row %+v", loss.name, who, l, err, row)
			}
		}
		if n := proxy.Fired("SET lease = 2"); n != 2 {
			t.Errorf("%s: the faults fired %d times; want 2", loss.name, n)
		}
	}
}

func testAReleaseWhoseStatementOrAnswerIsLostIsRepeated(t *testing.T, newStore newStore) {
	t.Parallel()
	direct := mysql.NewTestDB(t)
	for _, loss := range losses {
		proxy, _, s := behind(t, newStore, direct)
		l := acquire(t, s, claim(t, loss.name, "100"))
		proxy.Inject(mysql.Fault{Kind: loss.kind, Match: "SET locked_until = NOW(3)"})
		if err := s.Release(testCtx(t), l); err != nil {
			t.Errorf("%s: %v", loss.name, err)
		}
		if row := read(t, s, loss.name); row.LeaseLeft > 0 {
			t.Errorf("%s: %s of the lease are left", loss.name, row.LeaseLeft)
		}
	}
}

// The worst loss: the INSERT reaches the server only after its sender has given up, read that there is no row, and inserted again.
func testAClaimThatArrivesLateChangesNothing(t *testing.T, newStore newStore) {
	t.Parallel()
	direct := mysql.NewTestDB(t)
	proxy, _, s := behind(t, newStore, direct)
	deliver, done := make(chan struct{}), make(chan struct{})
	proxy.Inject(mysql.Fault{Kind: mysql.HoldStatement, Match: "INSERT INTO idempotency_keys", Deliver: deliver, Done: done})
	l := acquire(t, s, claim(t, "k", "100"))
	before := read(t, s, "k")
	close(deliver)
	<-done
	if after := read(t, s, "k"); !after.HeldBy(l) || after.LockedUntil != before.LockedUntil {
		t.Errorf("the late INSERT changed the row from %+v to %+v", before, after)
	}
}

// With no database at all the claim ends within its context and decides nothing.
func testAClaimWithoutADatabaseEnds(t *testing.T, newStore newStore) {
	t.Parallel()
	direct := mysql.NewTestDB(t)
	proxy, _, s := behind(t, newStore, direct)
	proxy.Inject(mysql.Fault{Kind: mysql.SwallowAnswer, Match: "idempotency_keys", Times: 1000})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := s.Acquire(ctx, claim(t, "k", "100"))
	if err == nil || !mysql.Unavailable(err) || errors.Is(err, idempotency.ErrReused) {
		t.Errorf("%v; want one that says that the database is unavailable", err)
	}
}

// The INSERT meets the key's row, and then the database goes away: that is what the caller is told, not that there was a duplicate.
func testADuplicateBeforeTheDatabaseGoesAwayIsUnavailable(t *testing.T, newStore newStore) {
	t.Parallel()
	direct := mysql.NewTestDB(t)
	acquire(t, newStore(direct.DB), claim(t, "k", "100"))
	proxy, _, s := behind(t, newStore, direct)
	proxy.Inject(mysql.Fault{Kind: mysql.LoseAnswer, Match: "SELECT user_id, idem_key", Times: 1000})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := s.Acquire(ctx, claim(t, "k", "100")); err == nil || !mysql.Unavailable(err) || mysql.Duplicate(err) {
		t.Errorf("%v; want one that says that the database is unavailable", err)
	}
}
