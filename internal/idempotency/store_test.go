package idempotency_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/structpb"

	"chargeonce/internal/idempotency"
	"chargeonce/internal/mysql"
)

const user = 42

func testCtx(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func claim(t *testing.T, key, amount string) idempotency.Claim {
	t.Helper()
	req, err := structpb.NewStruct(map[string]any{"amount": amount})
	if err != nil {
		t.Fatal(err)
	}
	return idempotency.Claim{
		UserID: user, Key: mustKey(t, key), RPC: "test.Pay", Request: req,
		PaymentID: "pay_" + key, OrderID: "o-" + key, Amount: 100, Currency: "EUR", TTL: time.Hour,
	}
}

// expire ends the key's lease by the database's clock, so that no test has to wait for it.
func expire(t *testing.T, db mysql.Querier, key string) {
	t.Helper()
	if _, err := db.ExecContext(testCtx(t), `UPDATE idempotency_keys SET locked_until = NOW(3) WHERE idem_key = ?`, []byte(key)); err != nil {
		t.Fatal(err)
	}
}

func acquire(t *testing.T, s *idempotency.Store, c idempotency.Claim) idempotency.Lease {
	t.Helper()
	got, err := s.Acquire(testCtx(t), c)
	if err != nil || got.Done() {
		t.Fatalf("got %+v, %v; want a lease", got, err)
	}
	return got.Lease
}

func finish(t *testing.T, db *sql.DB, s *idempotency.Store, l idempotency.Lease, body string) error {
	t.Helper()
	return mysql.WithTx(testCtx(t), db, func(tx mysql.Querier) error {
		return s.Finish(testCtx(t), tx, l, idempotency.Stored{Code: 201, Body: []byte(body)}, false)
	})
}

func read(t *testing.T, s *idempotency.Store, key string) idempotency.Record {
	t.Helper()
	row, err := s.Read(testCtx(t), user, mustKey(t, key))
	if err != nil {
		t.Fatal(err)
	}
	return row
}

func testClaimThenReplay(t *testing.T, newStore newStore) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	s := newStore(db.DB)
	c := claim(t, "k", "100")
	l := acquire(t, s, c)
	if l.Token != 1 || l.TakenOver() || l.PaymentID != "pay_k" || l.Amount != 100 {
		t.Errorf("lease %+v", l)
	}

	var busy *idempotency.InProgressError
	if _, err := s.Acquire(testCtx(t), c); !errors.As(err, &busy) || busy.LeaseLeft <= 0 || busy.LeaseLeft > time.Hour {
		t.Errorf("in progress: %v; want the rest of the lease", err)
	}
	if err := finish(t, db.DB, s, l, "answer"); err != nil {
		t.Fatal(err)
	}
	got, err := s.Acquire(testCtx(t), c)
	if err != nil || !got.Done() {
		t.Fatalf("got %+v, %v; want the stored answer", got, err)
	}
	if diff := cmp.Diff(idempotency.Stored{Code: 201, Body: []byte("answer")}, got.Record.Stored); diff != "" {
		t.Error(diff)
	}
}

// Case 2: another request under the key is refused before it has any effect, whatever state the key is in.
func testAnotherRequestUnderTheKeyIsRefused(t *testing.T, newStore newStore) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	s := newStore(db.DB)
	l := acquire(t, s, claim(t, "k", "100"))
	other := claim(t, "k", "999")
	refused := func(state string) {
		t.Helper()
		before := read(t, s, "k")
		if _, err := s.Acquire(testCtx(t), other); !errors.Is(err, idempotency.ErrReused) {
			t.Errorf("%s: %v; want ErrReused", state, err)
		}
		after := read(t, s, "k")
		if before.Lease != after.Lease || before.Holder != after.Holder || before.Status != after.Status || before.LockedUntil != after.LockedUntil {
			t.Errorf("%s: the refused request changed the row from %+v to %+v", state, before, after)
		}
	}
	refused("in progress")
	expire(t, db, "k")
	refused("expired")
	if err := finish(t, db.DB, s, l, "answer"); err != nil {
		t.Fatal(err)
	}
	refused("done")
	// Case 4: the same content sent to another method is another request.
	elsewhere := claim(t, "k", "100")
	elsewhere.RPC = "test.Refund"
	if _, err := s.Acquire(testCtx(t), elsewhere); !errors.Is(err, idempotency.ErrReused) {
		t.Errorf("another method: %v; want ErrReused", err)
	}
	// Case 3: the same key of another user is another key.
	stranger := claim(t, "k", "999")
	stranger.UserID = user + 1
	if _, err := s.Acquire(testCtx(t), stranger); err != nil {
		t.Errorf("another user: %v", err)
	}
}

// Case 8: a holder that never came back is taken over; case 10: it can then write nothing any more.
func testAStaleHolderWritesNothing(t *testing.T, newStore newStore) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	s := newStore(db.DB)
	c := claim(t, "k", "100")
	old := acquire(t, s, c)
	expire(t, db, "k")
	c.PaymentID = "pay_other" // a retry mints one too; the first one counts
	now := acquire(t, s, c)
	if now.Token != 2 || !now.TakenOver() || now.Holder == old.Holder || now.PaymentID != "pay_k" {
		t.Errorf("the new lease is %+v", now)
	}
	before := read(t, s, "k")
	if err := s.Release(testCtx(t), old); !errors.Is(err, idempotency.ErrLeaseLost) {
		t.Errorf("release: %v; want ErrLeaseLost", err)
	}
	if err := s.Park(testCtx(t), old, "stale"); !errors.Is(err, idempotency.ErrLeaseLost) {
		t.Errorf("park: %v; want ErrLeaseLost", err)
	}
	if err := finish(t, db.DB, s, old, "stale"); !errors.Is(err, idempotency.ErrLeaseLost) {
		t.Errorf("finish: %v; want ErrLeaseLost", err)
	}
	if after := read(t, s, "k"); after.Lease != before.Lease || after.Holder != before.Holder || after.Status != before.Status ||
		after.LockedUntil != before.LockedUntil {
		t.Errorf("the stale holder changed the row from %+v to %+v", before, after)
	}
	// The token alone is not the lease, and neither is the holder alone.
	forged := old
	forged.Token = now.Token
	if err := finish(t, db.DB, s, forged, "forged"); !errors.Is(err, idempotency.ErrLeaseLost) {
		t.Errorf("the new token with the old holder: %v; want ErrLeaseLost", err)
	}
	forged = now
	forged.Token = old.Token
	if err := finish(t, db.DB, s, forged, "forged"); !errors.Is(err, idempotency.ErrLeaseLost) {
		t.Errorf("the old token with the new holder: %v; want ErrLeaseLost", err)
	}
	if err := finish(t, db.DB, s, now, "answer"); err != nil {
		t.Error(err)
	}
}

func testReleaseLetsARetryInAtOnce(t *testing.T, newStore newStore) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	s := newStore(db.DB)
	l := acquire(t, s, claim(t, "k", "100"))
	for range 2 { // releasing twice does no harm
		if err := s.Release(testCtx(t), l); err != nil {
			t.Fatal(err)
		}
	}
	if now := acquire(t, s, claim(t, "k", "100")); now.Token != 2 {
		t.Errorf("token %d; want 2", now.Token)
	}
}

func testAParkedKeyStaysParked(t *testing.T, newStore newStore) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	s := newStore(db.DB)
	l := acquire(t, s, claim(t, "k", "100"))
	for range 2 { // the second one finds its own work done
		if err := s.Park(testCtx(t), l, "amount differs"); err != nil {
			t.Fatal(err)
		}
	}
	expire(t, db, "k")
	if _, err := s.Acquire(testCtx(t), claim(t, "k", "100")); !errors.Is(err, idempotency.ErrParked) {
		t.Errorf("%v; want ErrParked", err)
	}
	if row := read(t, s, "k"); row.ParkedFor != "amount differs" {
		t.Errorf("parked for %q", row.ParkedFor)
	}
	if err := finish(t, db.DB, s, l, "answer"); !errors.Is(err, idempotency.ErrLeaseLost) {
		t.Errorf("finish of a parked key: %v; want ErrLeaseLost", err)
	}
}

// Case 1 and 6: of many at once exactly one gets the key; nobody sees a deadlock or any other error.
func testOfManyClaimsOneWins(t *testing.T, newStore newStore) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	s := newStore(db.DB)
	for round := range 10 {
		key := fmt.Sprintf("k%d", round)
		for _, take := range []string{"claim", "take-over"} {
			if take == "take-over" {
				expire(t, db, key)
			}
			won, busy := race(t, 32, func() error {
				_, err := s.Acquire(testCtx(t), claim(t, key, "100"))
				return err
			})
			if won != 1 || busy != 31 {
				t.Fatalf("%s: %d won and %d were told that it is in progress; want 1 and 31", take, won, busy)
			}
		}
	}
}

func race(t *testing.T, n int, try func() error) (won, busy int) {
	t.Helper()
	var (
		start = make(chan struct{})
		errs  = make(chan error, n)
		wg    sync.WaitGroup
	)
	for range n {
		wg.Go(func() {
			<-start
			errs <- try()
		})
	}
	close(start)
	wg.Wait()
	close(errs)
	for err := range errs {
		var inProgress *idempotency.InProgressError
		switch {
		case err == nil:
			won++
		case errors.As(err, &inProgress), errors.Is(err, idempotency.ErrLeaseLost):
			busy++
		default:
			t.Errorf("unexpected error: %v", err)
		}
	}
	return won, busy
}

// Two requests read the same lease and race to take it over: one wins, and the loser's release does not free the winner.
func testTwoThatReadTheSameLease(t *testing.T, newStore newStore) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	s := newStore(db.DB)
	acquire(t, s, claim(t, "k", "100"))
	expire(t, db, "k")
	row := read(t, s, "k")
	winner, err := s.TakeOver(testCtx(t), row, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.TakeOver(testCtx(t), row, time.Hour); !errors.Is(err, idempotency.ErrLeaseLost) {
		t.Fatalf("the second: %v; want ErrLeaseLost", err)
	}
	// The loser believes in the token that it would have got.
	loser := winner
	loser.Holder[0] ^= 0xff
	if err := s.Release(testCtx(t), loser); !errors.Is(err, idempotency.ErrLeaseLost) {
		t.Errorf("the loser's release: %v; want ErrLeaseLost", err)
	}
	if now := read(t, s, "k"); !now.HeldBy(winner) || now.LeaseLeft <= 0 {
		t.Errorf("after the loser's release the row is %+v", now)
	}
	expire(t, db, "k")
	row = read(t, s, "k")
	if won, lost := race(t, 16, func() error { _, err := s.TakeOver(testCtx(t), row, time.Hour); return err }); won != 1 || lost != 15 {
		t.Errorf("%d won, %d lost; want 1 and 15", won, lost)
	}
}

// Reconciliation asks and never charges: its take-over must not make the last attempt look recent.
func testOnlyARetryMovesTheTimeOfTheLastAttempt(t *testing.T, newStore newStore) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	s := newStore(db.DB)
	l := acquire(t, s, claim(t, "k", "100"))
	if _, err := db.ExecContext(testCtx(t), `UPDATE idempotency_keys SET attempted_at = NOW(3) - INTERVAL 2 HOUR, locked_until = NOW(3)`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.TakeOver(testCtx(t), read(t, s, "k"), time.Hour); err != nil {
		t.Fatal(err)
	}
	if row := read(t, s, "k"); row.SinceAttempt < 2*time.Hour {
		t.Errorf("after reconciliation's take-over the last attempt was %s ago; want 2 h or more", row.SinceAttempt)
	}
	expire(t, db, "k")
	if now := acquire(t, s, claim(t, "k", "100")); now.Token != l.Token+2 {
		t.Errorf("token %d", now.Token)
	}
	if row := read(t, s, "k"); row.SinceAttempt > time.Minute {
		t.Errorf("after a retry the last attempt was %s ago; want a moment", row.SinceAttempt)
	}
}

func testStuckKeysComeOldestFirstEachOnce(t *testing.T, newStore newStore) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	s := newStore(db.DB)
	ages := map[string]int{"a": 90, "b": 3000, "c": 61, "d": 3000, "young": 10, "held": -100, "done": 5000}
	for key, age := range ages {
		l := acquire(t, s, claim(t, key, "100"))
		if key == "done" {
			if err := finish(t, db.DB, s, l, "answer"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := db.ExecContext(testCtx(t), `UPDATE idempotency_keys SET locked_until = NOW(3) - INTERVAL ? SECOND WHERE idem_key = ?`,
			age, []byte(key)); err != nil {
			t.Fatal(err)
		}
	}
	// b and d end in the same millisecond: the cursor has to go on by the key.
	if _, err := db.ExecContext(testCtx(t), `UPDATE idempotency_keys SET locked_until = '2026-01-01' WHERE idem_key IN ('b', 'd')`); err != nil {
		t.Fatal(err)
	}
	for _, page := range []int{1, 2, 100} {
		var got []string
		var after idempotency.StuckAfter
		for range len(ages) + 1 {
			rows, err := s.Stuck(testCtx(t), time.Minute, after, page)
			if err != nil {
				t.Fatal(err)
			}
			if len(rows) == 0 {
				break
			}
			for _, r := range rows {
				got = append(got, r.Key.String())
			}
			after = rows[len(rows)-1].Cursor()
		}
		if diff := cmp.Diff([]string{"b", "d", "a", "c"}, got); diff != "" {
			t.Errorf("pages of %d (-want +got):\n%s", page, diff)
		}
	}
}

func testByPaymentFindsTheKeyThatMintedTheID(t *testing.T, newStore newStore) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	s := newStore(db.DB)
	acquire(t, s, claim(t, "k", "100"))
	if row, err := s.ByPayment(testCtx(t), db, user, "pay_k"); err != nil || row.Key.String() != "k" {
		t.Errorf("%+v, %v", row, err)
	}
	if _, err := s.ByPayment(testCtx(t), db, user+1, "pay_k"); !errors.Is(err, idempotency.ErrNotFound) {
		t.Errorf("another user: %v; want ErrNotFound", err)
	}
}

// A key whose fingerprint was made by a newer build is not taken for another request's: nothing is decided.
func testAFingerprintOfAnUnknownVersionDecidesNothing(t *testing.T, newStore newStore) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	s := newStore(db.DB)
	acquire(t, s, claim(t, "k", "100"))
	if _, err := db.ExecContext(testCtx(t), `UPDATE idempotency_keys SET hash_version = 2`); err != nil {
		t.Fatal(err)
	}
	_, err := s.Acquire(testCtx(t), claim(t, "k", "100"))
	var busy *idempotency.InProgressError
	if err == nil || errors.Is(err, idempotency.ErrReused) || errors.As(err, &busy) {
		t.Errorf("%v; want an error of its own", err)
	}
}

// All that was read stands in the compare-and-set: a row that changed hands in between and is free again is another lease.
func testATakeOverNeedsTheVeryLeaseThatWasRead(t *testing.T, newStore newStore) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	s := newStore(db.DB)
	acquire(t, s, claim(t, "k", "100"))
	if _, err := s.TakeOver(testCtx(t), read(t, s, "k"), time.Hour); !errors.Is(err, idempotency.ErrLeaseLost) {
		t.Errorf("a lease that is not over: %v; want ErrLeaseLost", err)
	}
	expire(t, db, "k")
	stale := read(t, s, "k")
	between, err := s.TakeOver(testCtx(t), stale, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Release(testCtx(t), between); err != nil {
		t.Fatal(err)
	}
	if _, err := s.TakeOver(testCtx(t), stale, time.Hour); !errors.Is(err, idempotency.ErrLeaseLost) {
		t.Errorf("a lease that somebody had in between: %v; want ErrLeaseLost", err)
	}
	if now := read(t, s, "k"); !now.HeldBy(between) {
		t.Errorf("the row changed to %+v", now)
	}
}
