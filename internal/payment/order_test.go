package payment_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"chargeonce/internal/idempotency"
	"chargeonce/internal/mysql"
	"chargeonce/internal/payment"
	"chargeonce/internal/psp"
)

// guarded is a flow that pays an order once.
func guarded(t *testing.T, db *mysql.TestDB, p payment.PSP) *payment.Flow {
	t.Helper()
	f := newFlow(t, db, p)
	f.OnePaymentPerOrder = true
	return f
}

// forOrder is a purchase of one order under a key of its own.
func forOrder(t *testing.T, key, order string) payment.Purchase {
	t.Helper()
	p := purchase(t, key)
	p.OrderID = order
	return p
}

func testAnOrderThatIsPaidIsNotPaidUnderAnotherKey(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	bank := newLedger()
	f := guarded(t, db, bank)
	first, err := f.Create(testCtx(t), forOrder(t, "k1", "o"))
	if err != nil {
		t.Fatal(err)
	}
	want := paymentIn(t, first).ID
	for _, status := range []string{"succeeded", "refunded", "canceled"} { // a refund does not free the order
		exec(t, db, `UPDATE payments SET status = ?`, status)
		_, err = f.Create(testCtx(t), forOrder(t, "k2", "o"))
		var paid *payment.OrderPaidError
		if !errors.As(err, &paid) || paid.PaymentID != want {
			t.Errorf("%s: %v; want paid by %s", status, err, want)
		}
	}
	if _, err := idempotency.NewStore(db.DB).Read(testCtx(t), user, purchase(t, "k2").Key); !errors.Is(err, idempotency.ErrNotFound) {
		t.Errorf("the second key's row: %v; want none", err)
	}
	if again, err := f.Create(testCtx(t), forOrder(t, "k1", "o")); err != nil || !again.Replayed {
		t.Errorf("the first key: %+v, %v; want its replay", again, err)
	}
	if _, err := f.Create(testCtx(t), forOrder(t, "k3", "another")); err != nil {
		t.Errorf("another order: %v", err)
	}
	stranger := forOrder(t, "k2", "o")
	stranger.UserID = user + 1
	bank.charges = map[string]psp.Charge{} // its ids come from the order's name
	exec(t, db, `UPDATE payments SET charge_id = CONCAT(charge_id, '-old')`)
	if _, err := f.Create(testCtx(t), stranger); err != nil {
		t.Errorf("another user's order of the same name: %v", err)
	}
}

func testWithoutTheGuardTwoKeysPayTwice(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	bank := newLedger()
	bank.around = func(_ context.Context, n int, truth func() psp.Result) psp.Result {
		res := truth()
		res.Charge.ID += string(rune('0' + n))
		return res
	}
	f := newFlow(t, db, bank)
	for _, k := range []string{"k1", "k2"} {
		if _, err := f.Create(testCtx(t), forOrder(t, k, "o")); err != nil {
			t.Error(err)
		}
	}
	if bank.count() != 2 {
		t.Errorf("%d charges; without the guard the key alone decides", bank.count())
	}
}

func testWhileAnOrderIsBeingPaidAnotherKeyWaits(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	bank := newLedger()
	in, out := make(chan struct{}), make(chan struct{})
	bank.around = func(_ context.Context, _ int, truth func() psp.Result) psp.Result {
		close(in)
		<-out
		return truth()
	}
	f := guarded(t, db, bank)
	done := make(chan error)
	go func() {
		_, err := f.Create(testCtx(t), forOrder(t, "k1", "o"))
		done <- err
	}()
	<-in
	_, err := f.Create(testCtx(t), forOrder(t, "k2", "o"))
	var busy *payment.OrderInProgressError
	if !errors.As(err, &busy) || busy.LeaseLeft <= 0 {
		t.Errorf("%v; want the order in progress, with the rest of the first key's lease", err)
	}
	close(out)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func testARefusalOrAFailedChargeFreesTheOrder(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	bank := newLedger()
	f := guarded(t, db, bank)
	declined := forOrder(t, "k1", "declined")
	declined.PaymentMethod = "tok_declined"
	if a, err := f.Create(testCtx(t), declined); err != nil || a.Stored.Code != 402 {
		t.Fatalf("%+v, %v", a, err)
	}
	if a, err := f.Create(testCtx(t), forOrder(t, "k2", "declined")); err != nil || a.Stored.Code != 201 {
		t.Errorf("after a decline: %+v, %v; want 201", a, err)
	}

	// A pending charge holds the order until it fails, by a webhook …
	bank.status = "pending"
	if a, err := f.Create(testCtx(t), forOrder(t, "k3", "pending")); err != nil || a.Stored.Code != 202 {
		t.Fatalf("%+v, %v", a, err)
	}
	var busy *payment.OrderInProgressError
	if _, err := f.Create(testCtx(t), forOrder(t, "k4", "pending")); !errors.As(err, &busy) {
		t.Errorf("while it is pending: %v; want the order in progress", err)
	}
	news := bank.charges[idempotency.PSPKey(user, purchase(t, "k3").Key)]
	news.Status = "failed"
	if _, err := apply(t, db, f, news); err != nil {
		t.Fatal(err)
	}
	bank.status = ""
	bank.around = func(_ context.Context, _ int, truth func() psp.Result) psp.Result {
		res := truth()
		res.Charge.ID += "-second"
		return res
	}
	if a, err := f.Create(testCtx(t), forOrder(t, "k4", "pending")); err != nil || a.Stored.Code != 201 {
		t.Errorf("after it failed: %+v, %v; want 201", a, err)
	}
	// … and by a webhook that leads the response.
	bank.status = "pending"
	bank.around = func(_ context.Context, _ int, truth func() psp.Result) psp.Result {
		res := truth()
		lead := *res.Charge
		lead.Status = "failed"
		if _, err := apply(t, db, f, lead); err != nil {
			t.Error(err)
		}
		return res
	}
	if a, err := f.Create(testCtx(t), forOrder(t, "k5", "early")); err != nil || a.Stored.Code != 402 {
		t.Errorf("a charge that failed before its response: %+v, %v; want 402", a, err)
	}
	var open int
	if err := db.QueryRowContext(testCtx(t), `SELECT COUNT(*) FROM idempotency_keys WHERE open_order = 'early'`).Scan(&open); err != nil || open != 0 {
		t.Errorf("%d keys hold the order, %v; want it free", open, err)
	}
}

// The customer reinstalled the app: the first key is lost, its request was cut, and the app minted a second one.
func testASecondKeySettlesTheFirstWhoseLeaseIsOver(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		charged bool
		method  string
		lookUp  func(psp.Result) psp.Result
		check   func(*testing.T, payment.Answer, error)
		first   idempotency.Status
		charges int
	}{
		{name: "it was charged", charged: true, method: "tok_visa", first: idempotency.Done, charges: 1,
			check: func(t *testing.T, _ payment.Answer, err error) {
				var paid *payment.OrderPaidError
				if !errors.As(err, &paid) || paid.PaymentID == "" {
					t.Errorf("%v; want paid", err)
				}
			}},
		{name: "it was declined", charged: true, method: "tok_declined", first: idempotency.Done, charges: 1, check: is201},
		{name: "it was never seen", method: "tok_visa", first: idempotency.Done, charges: 1, check: is201},
		{name: "the PSP can't say", charged: true, method: "tok_visa", first: idempotency.Processing, charges: 1,
			lookUp: func(psp.Result) psp.Result { return psp.Result{Kind: psp.Unknown} },
			check: func(t *testing.T, _ payment.Answer, err error) {
				var busy *payment.OrderInProgressError
				if !errors.As(err, &busy) {
					t.Errorf("%v; want the order in progress", err)
				}
			}},
		{name: "the PSP holds something else", charged: true, method: "tok_visa", first: idempotency.Parked, charges: 1,
			lookUp: func(psp.Result) psp.Result { return psp.Result{Kind: psp.Mismatch} },
			check: func(t *testing.T, _ payment.Answer, err error) {
				if !errors.Is(err, idempotency.ErrParked) {
					t.Errorf("%v; want ErrParked", err)
				}
			}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			db := mysql.NewTestDB(t)
			bank := newLedger()
			f := guarded(t, db, bank)
			bank.around = func(_ context.Context, _ int, truth func() psp.Result) psp.Result {
				if tc.charged {
					truth()
				}
				return psp.Result{Kind: psp.Unknown}
			}
			first := forOrder(t, "k1", "o")
			first.PaymentMethod = tc.method
			var undecided *payment.UndecidedError
			if _, err := f.Create(testCtx(t), first); !errors.As(err, &undecided) {
				t.Fatal(err)
			}
			// A moment by the database's clock, so that the attempt is not of this very millisecond.
			exec(t, db, `UPDATE idempotency_keys SET attempted_at = NOW(3) - INTERVAL 1 SECOND`)
			bank.around, bank.lookUp = nil, tc.lookUp
			a, err := f.Create(testCtx(t), forOrder(t, "k2", "o"))
			tc.check(t, a, err)
			if row := key(t, db, "k1"); row.Status != tc.first {
				t.Errorf("the first key is %s; want %s", row.Status, tc.first)
			}
			if bank.count() != tc.charges {
				t.Errorf("%d charges; want %d", bank.count(), tc.charges)
			}
		})
	}
}

func is201(t *testing.T, a payment.Answer, err error) {
	t.Helper()
	if err != nil || a.Stored.Code != 201 {
		t.Errorf("%+v, %v; want 201", a, err)
	}
}

// Promise 10: however many keys a client mints at once, the order is paid once.
func testManyKeysForOneOrderAtOnce(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	bank := newLedger()
	f := guarded(t, db, bank)
	var (
		wg    sync.WaitGroup
		start = make(chan struct{})
		got   = make(chan string, 24)
	)
	for i := range cap(got) {
		wg.Go(func() {
			<-start
			a, err := f.Create(testCtx(t), forOrder(t, "k"+string(rune('a'+i)), "o"))
			var (
				busy *payment.OrderInProgressError
				paid *payment.OrderPaidError
			)
			switch {
			case err == nil && a.Stored.Code == 201:
				got <- "201"
			case errors.As(err, &busy), errors.As(err, &paid):
				got <- "409"
			default:
				got <- err.Error()
			}
		})
	}
	close(start)
	wg.Wait()
	close(got)
	counts := map[string]int{}
	for g := range got {
		counts[g]++
	}
	if counts["201"] != 1 || counts["409"] != cap(got)-1 || bank.count() != 1 {
		t.Errorf("%v, %d charges; want one 201, the rest 409, one charge", counts, bank.count())
	}
}

// The order is found by its row, not by the error's text: an order named like the primary key of a client's own making.
func testAnOrderThatIsNamedLikeAKeyFoolsNobody(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	f := guarded(t, db, newLedger())
	order := "idempotency_keys.PRIMARY"
	if _, err := f.Create(testCtx(t), forOrder(t, "k1", order)); err != nil {
		t.Fatal(err)
	}
	var paid *payment.OrderPaidError
	if _, err := f.Create(testCtx(t), forOrder(t, "k2", order)); !errors.As(err, &paid) {
		t.Errorf("%v; want paid", err)
	}
}

// A claim whose answer is lost under the guard is still its own, not an order that somebody else pays.
func testALostClaimUnderTheGuardIsOurs(t *testing.T) {
	t.Parallel()
	direct := mysql.NewTestDB(t)
	proxy := mysql.NewFaultProxy(t, direct.DSN)
	proxy.Inject(mysql.Fault{Kind: mysql.LoseAnswer, Match: "INSERT INTO idempotency_keys"})
	f := flowOn(t, proxy.DSN, newLedger(), payment.Timing{StoreTimeout: 5 * time.Second})
	f.OnePaymentPerOrder = true
	if a, err := f.Create(testCtx(t), forOrder(t, "k", "o")); err != nil || a.Replayed {
		t.Errorf("%+v, %v; want a first 201", a, err)
	}
}
