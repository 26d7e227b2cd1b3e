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

// A PSP that told of a charge by webhook and then refuses the key contradicts itself: nothing is stored, a person looks.
func testARefusalIsNotStoredOverAPaymentThatWeHold(t *testing.T) {
	t.Parallel()
	for kind, status := range map[psp.Kind]string{psp.Declined: "succeeded", psp.Cancelled: "pending", psp.Rejected: "refunded"} {
		db := mysql.NewTestDB(t)
		bank := newLedger()
		f := newFlow(t, db, bank)
		bank.around = func(_ context.Context, _ int, truth func() psp.Result) psp.Result {
			news := *truth().Charge
			news.Status = status
			if _, err := apply(t, db, f, news); err != nil {
				t.Error(err)
			}
			return psp.Result{Kind: kind}
		}
		if _, err := f.Create(testCtx(t), purchase(t, "k")); !errors.Is(err, idempotency.ErrParked) {
			t.Errorf("%s over %s: %v; want ErrParked", kind, status, err)
		}
		if row := key(t, db, "k"); row.Status != idempotency.Parked || row.Stored.Code != 0 {
			t.Errorf("%s over %s: the key is %+v", kind, status, row)
		}
	}
}

// The news and the refusal arrive at the same instant. Whichever is first, somebody is told: the key is parked, or the event is
// reported as charged after a refusal.
func testNewsAndARefusalAtTheSameInstantAreNeverSilent(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	bank := newLedger()
	told := map[string]int{}
	for i := range 20 {
		k := "k" + string(rune('a'+i))
		f, fw := newFlowShared(t, db, bank), newFlowShared(t, db, bank)
		var wg sync.WaitGroup
		var reported bool
		bank.around = func(_ context.Context, _ int, truth func() psp.Result) psp.Result {
			news := *truth().Charge
			wg.Go(func() {
				got, err := apply(t, db, fw, news)
				if err != nil {
					t.Errorf("the webhook: %v", err)
				}
				reported = got.ChargedAfterRefusal
			})
			return psp.Result{Kind: psp.Declined}
		}
		_, err := f.Create(testCtx(t), purchase(t, k))
		wg.Wait()
		switch parked := errors.Is(err, idempotency.ErrParked); {
		case parked && !reported:
			told["parked"]++
		case err == nil && reported:
			told["reported"]++
		default:
			t.Errorf("round %d: error %v, reported %v; want exactly one of parked and reported", i, err, reported)
		}
	}
	t.Logf("%v", told)
}

// The PSP takes a failure back. The client knows of the failure, and may have paid by other means.
func testASuccessAfterAFailureIsReported(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	f := newFlow(t, db, newLedger())
	for _, status := range []string{"pending", "failed"} {
		if got, err := apply(t, db, f, charge(t, "k", status)); err != nil || got.ChargedAfterRefusal {
			t.Fatalf("%s: %+v, %v", status, got, err)
		}
	}
	if got, err := apply(t, db, f, charge(t, "k", "succeeded")); err != nil || !got.ChargedAfterRefusal || got.Payment.Status != payment.Succeeded {
		t.Errorf("%+v, %v; want it written and reported", got, err)
	}
}

// The request says failed, the row that the webhook wrote says succeeded: the order stays paid.
func testAnOrderThatTheRowSaysIsPaidIsNotFreed(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	bank := newLedger()
	bank.status = "failed"
	f := guarded(t, db, bank)
	bank.around = func(_ context.Context, _ int, truth func() psp.Result) psp.Result {
		res := truth()
		news := *res.Charge
		news.Status = "succeeded"
		if _, err := apply(t, db, f, news); err != nil {
			t.Error(err)
		}
		return res
	}
	a, err := f.Create(testCtx(t), forOrder(t, "k1", "o"))
	if err != nil || a.Stored.Code != 201 {
		t.Fatalf("%d %s, %v; want 201, as the row says", a.Stored.Code, a.Stored.Body, err)
	}
	var paid *payment.OrderPaidError
	if _, err := f.Create(testCtx(t), forOrder(t, "k2", "o")); !errors.As(err, &paid) {
		t.Errorf("another key: %v; want the order paid", err)
	}
}

// Under the guard, a request finds its order taken by a rival; before it looks who that is, the rival is declined, and another request
// with the same key pays the order. The row that it then finds is its own key's.
func testAKeyIsNotItsOwnRival(t *testing.T) {
	t.Parallel()
	for name, released := range map[string]bool{"it was paid": false, "it was released": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := mysql.NewTestDB(t)
			bank := newLedger()
			in, out := make(chan struct{}), make(chan struct{})
			bank.around = func(_ context.Context, n int, truth func() psp.Result) psp.Result {
				switch {
				case n == 1:
					close(in)
					<-out
				case n == 2 && released:
					return psp.Result{Kind: psp.NotSent, NotSent: psp.BreakerOpen}
				}
				return truth()
			}
			direct := guarded(t, db, bank)
			rival := forOrder(t, "rival", "o")
			rival.PaymentMethod = "tok_declined"
			declined := begin(t, direct, rival)
			<-in

			proxy := mysql.NewFaultProxy(t, db.DSN)
			look := make(chan struct{})
			proxy.Inject(mysql.Fault{Kind: mysql.Delay, Match: "open_order = 'o'", Deliver: look})
			slow := flowOn(t, proxy.DSN, bank, payment.Timing{StoreTimeout: 15 * time.Second})
			slow.OnePaymentPerOrder = true
			first := begin(t, slow, forOrder(t, "mine", "o"))
			proxy.AwaitFired(t, "open_order = 'o'", 1)

			close(out)
			if o := <-declined; o.err != nil || o.a.Stored.Code != 402 {
				t.Fatalf("the rival: %+v, %v", o.a, o.err)
			}
			second := <-begin(t, direct, forOrder(t, "mine", "o"))
			var undecided *payment.UndecidedError
			if released != errors.As(second.err, &undecided) {
				t.Fatalf("the second request: %+v, %v", second.a, second.err)
			}
			close(look)
			o := <-first
			if o.err != nil || o.a.Stored.Code != 201 || o.a.Replayed == released {
				t.Errorf("the first request: %+v, %v; want 201", o.a, o.err)
			}
			if bank.count() != 1 || bank.cancels != 0 {
				t.Errorf("%d charges, %d cancels; want 1 and 0", bank.count(), bank.cancels)
			}
		})
	}
}

// What the PSP has forgotten it would charge again.
func testAKeyThatIsOlderThanThePSPsMemoryIsNeverSentAgain(t *testing.T) {
	t.Parallel()
	old := func(t *testing.T, bank *ledger, charged bool) (*mysql.TestDB, *payment.Flow) {
		db := mysql.NewTestDB(t)
		f := newFlow(t, db, bank)
		abandoned(t, db, bank, "k", charged, "tok_visa")
		bank.around = nil
		exec(t, db, `UPDATE idempotency_keys SET created_at = NOW(3) - INTERVAL 91 DAY, attempted_at = NOW(3) - INTERVAL 91 DAY`)
		return db, f
	}
	t.Run("the PSP still knows it", func(t *testing.T) {
		t.Parallel()
		bank := newLedger()
		_, f := old(t, bank, true)
		if a, err := f.Create(testCtx(t), purchase(t, "k")); err != nil || a.Stored.Code != 201 {
			t.Errorf("%+v, %v; want 201", a, err)
		}
		if bank.posts != 1 {
			t.Errorf("%d requests; want the first alone", bank.posts)
		}
	})
	for name, end := range map[string]func(*testing.T, *mysql.TestDB, *payment.Flow){
		"a retry": func(t *testing.T, _ *mysql.TestDB, f *payment.Flow) {
			if _, err := f.Create(testCtx(t), purchase(t, "k")); !errors.Is(err, idempotency.ErrParked) {
				t.Errorf("%v; want ErrParked", err)
			}
		},
		"reconciliation": func(t *testing.T, db *mysql.TestDB, f *payment.Flow) {
			if got, err := f.Settle(testCtx(t), key(t, db, "k"), payment.SettleOptions{}); err != nil || got != payment.SettledParked {
				t.Errorf("%s, %v; want parked", got, err)
			}
		},
	} {
		t.Run("forgotten, "+name, func(t *testing.T) {
			t.Parallel()
			bank := newLedger()
			db, f := old(t, bank, true)
			clear(bank.charges)
			end(t, db, f)
			if bank.posts != 1 || bank.cancels != 0 || bank.count() != 0 {
				t.Errorf("%d requests, %d cancels, %d charges; want it left alone", bank.posts, bank.cancels, bank.count())
			}
			if row := key(t, db, "k"); row.Status != idempotency.Parked {
				t.Errorf("the key is %s", row.Status)
			}
		})
	}
}

// The webhook has told of the charge, so a retry asks in place of charging, however young the key.
func testAKeyWhosePaymentWeHoldIsNotSentAgain(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	bank := newLedger()
	f := newFlow(t, db, bank)
	abandoned(t, db, bank, "k", true, "tok_visa")
	bank.around = nil
	if _, err := apply(t, db, f, bank.charges[idempotency.PSPKey(user, purchase(t, "k").Key)]); err != nil {
		t.Fatal(err)
	}
	if a, err := f.Create(testCtx(t), purchase(t, "k")); err != nil || a.Stored.Code != 201 {
		t.Errorf("%+v, %v; want 201", a, err)
	}
	if bank.posts != 1 || len(rows(t, db)) != 1 {
		t.Errorf("%d requests, %d rows; want 1 and 1", bank.posts, len(rows(t, db)))
	}
}

// A holder that was taken over and meets a mismatch parks nothing, and answers as the new holder's row says.
func testAStaleMismatchParksNothing(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	bank := newLedger()
	var second payment.Answer
	f := newFlow(t, db, bank)
	bank.around = func(_ context.Context, n int, truth func() psp.Result) psp.Result {
		if n > 1 {
			return truth()
		}
		expire(t, db, "k")
		var err error
		if second, err = f.Create(testCtx(t), purchase(t, "k")); err != nil {
			t.Error(err)
		}
		return psp.Result{Kind: psp.Mismatch, Err: errors.New("another amount")}
	}
	a, err := f.Create(testCtx(t), purchase(t, "k"))
	if err != nil || !a.Replayed || string(a.Stored.Body) != string(second.Stored.Body) {
		t.Errorf("%+v, %v; want the new holder's answer", a, err)
	}
	if row := key(t, db, "k"); row.Status != idempotency.Done {
		t.Errorf("the key is %s", row.Status)
	}
}
