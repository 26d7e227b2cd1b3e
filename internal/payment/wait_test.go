package payment_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"chargeonce/internal/idempotency"
	"chargeonce/internal/mysql"
	"chargeonce/internal/payment"
	"chargeonce/internal/psp"
)

// holding is a bank whose first charge waits for release; its result is then what end says.
func holding(end func(truth func() psp.Result) psp.Result) (bank *ledger, in, release chan struct{}) {
	bank = newLedger()
	in, release = make(chan struct{}), make(chan struct{})
	bank.around = func(_ context.Context, n int, truth func() psp.Result) psp.Result {
		if n > 1 {
			return truth()
		}
		close(in)
		<-release
		return end(truth)
	}
	return bank, in, release
}

func patient(t *testing.T, k string, d time.Duration) payment.Purchase {
	t.Helper()
	p := purchase(t, k)
	p.Wait = d
	return p
}

type outcome struct {
	a   payment.Answer
	err error
}

func begin(t *testing.T, f *payment.Flow, p payment.Purchase) <-chan outcome {
	t.Helper()
	ctx := testCtx(t)
	got := make(chan outcome, 1)
	go func() {
		a, err := f.Create(ctx, p)
		got <- outcome{a, err}
	}()
	return got
}

func testManyWhoWaitGetTheHoldersAnswerAndCostTheDatabaseLittle(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	bank, in, release := holding(func(truth func() psp.Result) psp.Result { return truth() })
	proxy := mysql.NewFaultProxy(t, db.DSN)
	f := flowOn(t, proxy.DSN, bank, payment.Timing{})
	holder := begin(t, f, purchase(t, "k"))
	<-in
	const waiters = 200
	var all []<-chan outcome
	for range waiters {
		all = append(all, begin(t, f, patient(t, "k", 15*time.Second)))
	}
	for payment.Waiting(f) < waiters {
		if err := mysql.Pause(testCtx(t), 3, time.Second); err != nil {
			t.Fatal("not all came to wait")
		}
	}
	// From here on only the watch reads the key. It waits 50 ms or more between two looks, so however slow this machine is, more
	// than so many reads are too many.
	const read = "SELECT user_id, idem_key"
	now := make(chan struct{})
	close(now)
	proxy.Inject(mysql.Fault{Kind: mysql.Delay, Match: read, Times: 1 << 30, Deliver: now}) // counts, and does no harm
	start := time.Now()
	proxy.AwaitFired(t, read, 5)
	if reads, most := proxy.Fired(read), int(time.Since(start)/(50*time.Millisecond))+2; reads > most {
		t.Errorf("%d reads for %d waiters; want at most %d", reads, waiters, most)
	}
	close(release)
	first := <-holder
	for i, w := range all {
		o := <-w
		if o.err != nil || !o.a.Replayed || string(o.a.Stored.Body) != string(first.a.Stored.Body) {
			t.Fatalf("waiter %d: %+v, %v; want the holder's answer", i, o.a, o.err)
		}
	}
	if bank.posts != 1 {
		t.Errorf("%d requests to the PSP; want 1", bank.posts)
	}
	if n := payment.Waiting(f); n != 0 {
		t.Errorf("%d still wait", n)
	}
	if err := f.Wait(testCtx(t)); err != nil {
		t.Errorf("the watch did not end: %v", err)
	}
}

func testAWaiterTakesOverWhatTheHolderReleases(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	bank, in, release := holding(func(truth func() psp.Result) psp.Result {
		truth()
		return psp.Result{Kind: psp.Unknown} // it charged, and nobody knows
	})
	f := newFlow(t, db, bank)
	holder := begin(t, f, purchase(t, "k"))
	<-in
	waiters := []<-chan outcome{begin(t, f, patient(t, "k", 15*time.Second)), begin(t, f, patient(t, "k", 15*time.Second)), begin(t, f, patient(t, "k", 15*time.Second))}
	close(release)
	var undecided *payment.UndecidedError
	if o := <-holder; !errors.As(o.err, &undecided) {
		t.Errorf("the holder: %+v, %v", o.a, o.err)
	}
	first := 0
	for _, w := range waiters {
		o := <-w
		if o.err != nil || o.a.Stored.Code != 201 {
			t.Errorf("a waiter: %+v, %v; want 201", o.a, o.err)
		}
		if !o.a.Replayed {
			first++
		}
	}
	if first != 1 || bank.posts != 2 || bank.count() != 1 || len(rows(t, db)) != 1 {
		t.Errorf("%d took over, %d requests, %d charges, %d rows; want 1, 2, 1, 1", first, bank.posts, bank.count(), len(rows(t, db)))
	}
}

func testAWaitThatEndsIsTheOrdinaryConflict(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	bank, in, release := holding(func(truth func() psp.Result) psp.Result { return truth() })
	f := newFlow(t, db, bank)
	holder := begin(t, f, purchase(t, "k"))
	<-in
	var busy *idempotency.InProgressError
	if o := <-begin(t, f, patient(t, "k", 120*time.Millisecond)); !errors.As(o.err, &busy) {
		t.Errorf("after its time: %+v, %v; want in progress", o.a, o.err)
	}
	// A wait longer than the deadline ends before it, so that the answer arrives.
	ctx, cancel := context.WithTimeout(t.Context(), 600*time.Millisecond)
	defer cancel()
	if _, err := f.Create(ctx, patient(t, "k", time.Hour)); !errors.As(err, &busy) || ctx.Err() != nil {
		t.Errorf("with a short deadline: %v (context: %v); want in progress before it is over", err, ctx.Err())
	}
	// A client who hangs up ends the wait at once.
	ctx, hangUp := context.WithCancel(testCtx(t))
	got := make(chan error)
	go func() {
		_, err := f.Create(ctx, patient(t, "k", time.Hour))
		got <- err
	}()
	for payment.Waiting(f) < 1 {
		if err := mysql.Pause(testCtx(t), 3, time.Second); err != nil {
			t.Fatal("nobody came to wait")
		}
	}
	hangUp()
	var undecided *payment.UndecidedError
	if err := <-got; !errors.As(err, &undecided) || undecided.Why != payment.ClientLeft {
		t.Errorf("hung up: %v; want: the client left", err)
	}
	// Another request under the key is told so at once, whatever it is ready to wait for.
	other := patient(t, "k", time.Hour)
	other.RPC = "test.Other"
	if _, err := f.Create(testCtx(t), other); !errors.Is(err, idempotency.ErrReused) {
		t.Errorf("another request: %v; want ErrReused", err)
	}
	close(release)
	if o := <-holder; o.err != nil {
		t.Error(o.err)
	}
}

func testWaitersOfAParkedKeyAreTold(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	bank, in, release := holding(func(func() psp.Result) psp.Result { return psp.Result{Kind: psp.Mismatch} })
	f := newFlow(t, db, bank)
	holder := begin(t, f, purchase(t, "k"))
	<-in
	waiter := begin(t, f, patient(t, "k", 15*time.Second))
	close(release)
	for _, o := range []outcome{<-holder, <-waiter} {
		if !errors.Is(o.err, idempotency.ErrParked) {
			t.Errorf("%+v, %v; want ErrParked", o.a, o.err)
		}
	}
}
