package payment_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chargeonce/internal/idempotency"
	"chargeonce/internal/mysql"
	"chargeonce/internal/payment"
	"chargeonce/internal/psp"
)

// abandoned makes a key whose request never came back: it was claimed, perhaps charged, and its lease is over.
func abandoned(t *testing.T, db *mysql.TestDB, bank *ledger, k string, charge bool, method string) {
	t.Helper()
	bank.around = func(_ context.Context, _ int, truth func() psp.Result) psp.Result {
		if charge {
			truth()
		}
		return psp.Result{Kind: psp.Unknown}
	}
	p := purchase(t, k)
	p.PaymentMethod = method
	var undecided *payment.UndecidedError
	if _, err := newFlow(t, db, bank).Create(testCtx(t), p); !errors.As(err, &undecided) {
		t.Fatal(err)
	}
}

func TestSettle(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		charge  bool
		method  string
		old     bool // the last attempt is older than AbandonAfter
		lookUp  func(psp.Result) psp.Result
		want    payment.Settlement
		code    int // stored, if the key is done
		rows    int
		cancels int
		status  idempotency.Status
	}{
		{name: "charged", charge: true, method: "tok_visa", want: payment.SettledCharged, code: 201, rows: 1, status: idempotency.Done},
		{name: "declined", charge: true, method: "tok_declined", want: payment.SettledRefused, code: 402, status: idempotency.Done},
		{name: "never seen and young", method: "tok_visa", want: payment.LeftYoung, status: idempotency.Processing},
		{name: "never seen and old", method: "tok_visa", old: true, want: payment.SettledAbandoned, code: 402, cancels: 1, status: idempotency.Done},
		{name: "charged between the look-up and the cancel", charge: true, method: "tok_visa", old: true,
			lookUp: func(psp.Result) psp.Result { return psp.Result{Kind: psp.NeverSeen} },
			want:   payment.SettledCharged, code: 201, rows: 1, cancels: 1, status: idempotency.Done},
		{name: "the PSP is down", charge: true, method: "tok_visa", old: true,
			lookUp: func(psp.Result) psp.Result { return psp.Result{Kind: psp.Unknown} },
			want:   payment.LeftUnknown, status: idempotency.Processing},
		{name: "the PSP still works on it", method: "tok_visa", old: true,
			lookUp: func(psp.Result) psp.Result { return psp.Result{Kind: psp.StillWorking} },
			want:   payment.LeftUnknown, status: idempotency.Processing},
		{name: "another amount", charge: true, method: "tok_visa",
			lookUp: func(psp.Result) psp.Result { return psp.Result{Kind: psp.Mismatch, Err: errors.New("amount")} },
			want:   payment.SettledParked, status: idempotency.Parked},
		{name: "pending", charge: true, method: "tok_visa",
			lookUp: func(r psp.Result) psp.Result {
				r.Charge.Status = "pending"
				return psp.Result{Kind: psp.Pending, Charge: r.Charge}
			},
			want: payment.SettledCharged, code: 202, rows: 1, status: idempotency.Done},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			db := mysql.NewTestDB(t)
			bank := newLedger()
			abandoned(t, db, bank, "k", tc.charge, tc.method)
			bank.lookUp = tc.lookUp
			if tc.old {
				exec(t, db, `UPDATE idempotency_keys SET attempted_at = NOW(3) - INTERVAL 61 MINUTE`)
			}
			charges := bank.count()
			got, err := newFlow(t, db, bank).Settle(testCtx(t), key(t, db, "k"), payment.SettleOptions{})
			if err != nil || got != tc.want {
				t.Fatalf("%s, %v; want %s", got, err, tc.want)
			}
			row := key(t, db, "k")
			if row.Status != tc.status || row.Stored.Code != tc.code || row.Lease != 2 {
				t.Errorf("the key is %s with %d under lease %d; want %s with %d under 2", row.Status, row.Stored.Code, row.Lease, tc.status, tc.code)
			}
			if row.Status == idempotency.Processing && row.LeaseLeft > 0 {
				t.Errorf("the key was left but not released")
			}
			if n := len(rows(t, db)); n != tc.rows {
				t.Errorf("%d payments; want %d", n, tc.rows)
			}
			if bank.posts != 1 || bank.count() != charges || bank.cancels != tc.cancels {
				t.Errorf("%d requests, %d charges, %d cancels; settling must never charge", bank.posts, bank.count(), bank.cancels)
			}
		})
	}
}

// A retry after the settlement gets what was stored, and a request that wakes after an abandonment is refused by the PSP.
func testAfterAnAbandonmentNobodyCharges(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	bank := newLedger()
	frozen, wake := make(chan struct{}), make(chan struct{})
	bank.around = func(_ context.Context, _ int, truth func() psp.Result) psp.Result {
		close(frozen)
		<-wake // frozen between the claim and the POST
		return truth()
	}
	f := newFlow(t, db, bank)
	type outcome struct {
		a   payment.Answer
		err error
	}
	got := make(chan outcome)
	go func() {
		a, err := f.Create(testCtx(t), purchase(t, "k"))
		got <- outcome{a, err}
	}()
	<-frozen
	exec(t, db, `UPDATE idempotency_keys SET locked_until = NOW(3), attempted_at = NOW(3) - INTERVAL 2 HOUR`)
	settled, err := newFlow(t, db, bank).Settle(testCtx(t), key(t, db, "k"), payment.SettleOptions{})
	if err != nil || settled != payment.SettledAbandoned {
		t.Fatalf("%s, %v", settled, err)
	}
	close(wake)
	o := <-got
	if o.err != nil || !o.a.Replayed || string(o.a.Stored.Body) != "abandoned " {
		t.Errorf("the holder that woke got %s, %v; want the stored abandonment", o.a.Stored.Body, o.err)
	}
	if bank.count() != 0 || len(rows(t, db)) != 0 {
		t.Errorf("%d charges, %d rows; want none", bank.count(), len(rows(t, db)))
	}
}

// A reconciliation that froze past its own lease wakes and cancels a key that was meanwhile taken over and charged: it gets the
// charge back, changes nothing at the PSP, and is fenced here.
func testACancelThatComesTooLateMovesNoMoney(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	bank := newLedger()
	abandoned(t, db, bank, "k", false, "tok_visa")
	bank.around = nil
	exec(t, db, `UPDATE idempotency_keys SET attempted_at = NOW(3) - INTERVAL 2 HOUR`)
	stuck := key(t, db, "k")
	slow := &slowReconciler{ledger: bank, asked: make(chan struct{}), wake: make(chan struct{})}
	got := make(chan payment.Settlement)
	go func() {
		s, err := newFlow(t, db, slow).Settle(testCtx(t), stuck, payment.SettleOptions{})
		if err != nil {
			t.Error(err)
		}
		got <- s
	}()
	<-slow.asked
	expire(t, db, "k")
	a, err := newFlow(t, db, bank).Create(testCtx(t), purchase(t, "k"))
	if err != nil || a.Stored.Code != 201 {
		t.Fatalf("%+v, %v", a, err)
	}
	close(slow.wake)
	if s := <-got; s != payment.LeftToOther {
		t.Errorf("the late reconciliation says %s; want that somebody else has it", s)
	}
	if row := key(t, db, "k"); row.Lease != 3 || row.Stored.Code != 201 {
		t.Errorf("the key is %+v; want the winner's", row)
	}
	if diff := cmp.Diff([]payment.Payment{paymentIn(t, a)}, rows(t, db)); diff != "" {
		t.Errorf("rows (-answer +rows):\n%s", diff)
	}
	if bank.charges[idempotency.PSPKey(user, purchase(t, "k").Key)].Status != "succeeded" {
		t.Error("the technical cancel changed the charge")
	}
}

// slowReconciler freezes between the look-up, which finds nothing, and the cancel.
type slowReconciler struct {
	*ledger
	asked, wake chan struct{}
}

func (s *slowReconciler) Cancel(ctx context.Context, key string, want psp.Expect) psp.Result {
	close(s.asked)
	<-s.wake
	return s.ledger.Cancel(ctx, key, want)
}

func TestTwoReconciliationsSettleAKeyOnce(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	bank := newLedger()
	abandoned(t, db, bank, "k", true, "tok_visa")
	stuck := key(t, db, "k")
	var wg sync.WaitGroup
	got := make(chan payment.Settlement, 8)
	for range cap(got) {
		wg.Go(func() {
			s, err := newFlow(t, db, bank).Settle(testCtx(t), stuck, payment.SettleOptions{})
			if err != nil {
				t.Error(err)
			}
			got <- s
		})
	}
	wg.Wait()
	close(got)
	counts := map[payment.Settlement]int{}
	for s := range got {
		counts[s]++
	}
	if counts[payment.SettledCharged] != 1 || counts[payment.LeftToOther] != 7 {
		t.Errorf("%v; want one that settles it and 7 that leave it", counts)
	}
}

func charge(t *testing.T, k, status string) psp.Charge {
	t.Helper()
	p := purchase(t, k)
	return psp.Charge{
		ID: "ch_" + p.OrderID, IdempotencyKey: idempotency.PSPKey(user, p.Key), Amount: p.Amount, Currency: p.Currency, Status: status,
		Metadata: psp.Metadata{UserID: user, PaymentID: "pay_" + k, OrderID: p.OrderID},
	}
}

func apply(t *testing.T, db *mysql.TestDB, f *payment.Flow, c psp.Charge) (payment.Applied, error) {
	t.Helper()
	var done payment.Applied
	err := mysql.WithTx(testCtx(t), db.DB, func(tx mysql.Querier) error {
		var err error
		done, err = f.Apply(testCtx(t), tx, c)
		return err
	})
	return done, err
}

// News of a charge only ever raises its payment, in whatever order it comes.
func TestApplyOnlyRaises(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	f := newFlow(t, db, newLedger())
	ranks := []string{"pending", "failed", "succeeded", "canceled", "refunded"}
	for i, first := range ranks {
		for j, second := range ranks {
			k := first + "-" + second
			if _, err := apply(t, db, f, charge(t, k, first)); err != nil {
				t.Fatal(err)
			}
			got, err := apply(t, db, f, charge(t, k, second))
			if err != nil {
				t.Fatal(err)
			}
			if want := payment.Status(ranks[max(i, j)]); got.Payment.Status != want || got.Changed != (j > i) {
				t.Errorf("%s, then %s: %s, changed %v; want %s", first, second, got.Payment.Status, got.Changed, want)
			}
		}
	}
}

// Case 17: the webhook leads the response. The request's finish adds no row, and its answer is what the row says.
func testTheWebhookBeforeTheResponse(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"pending", "succeeded", "refunded"} {
		db := mysql.NewTestDB(t)
		bank := newLedger()
		bank.status = "pending"
		f := newFlow(t, db, bank)
		bank.around = func(_ context.Context, _ int, truth func() psp.Result) psp.Result {
			res := truth()
			news := *res.Charge
			news.Status = status
			if got, err := apply(t, db, f, news); err != nil || !got.Changed || got.ChargedAfterRefusal {
				t.Errorf("%s: %+v, %v", status, got, err)
			}
			return res
		}
		a, err := f.Create(testCtx(t), purchase(t, "k"))
		if err != nil || a.Replayed || string(paymentIn(t, a).Status) != status {
			t.Errorf("%s: %s, %v; want the row's status", status, a.Stored.Body, err)
		}
		if diff := cmp.Diff([]payment.Payment{paymentIn(t, a)}, rows(t, db)); diff != "" {
			t.Errorf("%s: rows (-answer +rows):\n%s", status, diff)
		}
		if row := key(t, db, "k"); string(row.Stored.Body) != string(a.Stored.Body) {
			t.Errorf("%s: stored %s, answered %s", status, row.Stored.Body, a.Stored.Body)
		}
	}
}

// Both write at the same instant, from a barrier: one row, and both succeed.
func testTheWebhookAndTheResponseAtTheSameInstant(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	bank := newLedger()
	for round := range 50 {
		k := "k" + string(rune('a'+round/26)) + string(rune('a'+round%26))
		var wg sync.WaitGroup
		fw, fc := newFlowShared(t, db, bank), newFlowShared(t, db, bank)
		bank.around = func(_ context.Context, _ int, truth func() psp.Result) psp.Result {
			res := truth()
			start := make(chan struct{})
			wg.Go(func() {
				<-start
				if _, err := apply(t, db, fw, *res.Charge); err != nil {
					t.Errorf("the webhook: %v", err)
				}
			})
			close(start)
			return res
		}
		a, err := fc.Create(testCtx(t), purchase(t, k))
		wg.Wait()
		if err != nil || a.Stored.Code != 201 {
			t.Fatalf("the request: %+v, %v", a, err)
		}
		list, err := payment.List(testCtx(t), db.DB, user, "o-"+k, "", 10)
		if err != nil || len(list) != 1 || list[0].ID != paymentIn(t, a).ID {
			t.Fatalf("rows %+v, %v; want the one that was answered", list, err)
		}
	}
}

func newFlowShared(t *testing.T, db *mysql.TestDB, p payment.PSP) *payment.Flow {
	t.Helper()
	return inForm(t, payment.NewFlow(db.DB, p, words{}, payment.Timing{}, quiet))
}

// What is not the purchase that the key speaks of is not applied; what names nobody of ours is told apart.
func TestApplyRefusesWhatIsNotOurs(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	bank := newLedger()
	f := newFlow(t, db, bank)
	a, err := f.Create(testCtx(t), purchase(t, "k"))
	if err != nil {
		t.Fatal(err)
	}
	real := bank.charges[idempotency.PSPKey(user, purchase(t, "k").Key)]
	real.Status = "refunded"
	for field, change := range map[string]func(*psp.Charge){
		"amount":          func(c *psp.Charge) { c.Amount = 1 },
		"currency":        func(c *psp.Charge) { c.Currency = "USD" },
		"order_id":        func(c *psp.Charge) { c.Metadata.OrderID = "o-other" },
		"idempotency key": func(c *psp.Charge) { c.IdempotencyKey = "another" },
	} {
		c := real
		change(&c)
		_, err := apply(t, db, f, c)
		var differs *payment.DiffersError
		if !errors.As(err, &differs) || differs.Field != field {
			t.Errorf("another %s: %v; want a DiffersError of that field", field, err)
		}
	}
	// The same charge under another user's name meets the unique charge id.
	c := real
	c.Metadata.UserID = user + 1
	var differs *payment.DiffersError
	if _, err := apply(t, db, f, c); !errors.As(err, &differs) {
		t.Errorf("another user: %v; want a DiffersError", err)
	}
	for name, change := range map[string]func(*psp.Charge){
		"no user":       func(c *psp.Charge) { c.Metadata.UserID = 0 },
		"no payment id": func(c *psp.Charge) { c.Metadata.PaymentID = "" },
	} {
		c := real
		change(&c)
		if _, err := apply(t, db, f, c); !errors.Is(err, payment.ErrNotOurs) {
			t.Errorf("%s: %v; want ErrNotOurs", name, err)
		}
	}
	if diff := cmp.Diff([]payment.Payment{paymentIn(t, a)}, rows(t, db)); diff != "" {
		t.Errorf("something was written (-before +after):\n%s", diff)
	}
}

// The client was told that the key is abandoned, and then the PSP says that it charged.
func testASuccessAfterARefusalIsWrittenAndReported(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	bank := newLedger()
	p := purchase(t, "k")
	p.PaymentMethod = "tok_declined"
	f := newFlow(t, db, bank)
	if _, err := f.Create(testCtx(t), p); err != nil {
		t.Fatal(err)
	}
	before := key(t, db, "k")
	c := charge(t, "k", "succeeded")
	c.Metadata.PaymentID = before.PaymentID
	got, err := apply(t, db, f, c)
	if err != nil || !got.Changed || !got.ChargedAfterRefusal {
		t.Errorf("%+v, %v; want it written and reported", got, err)
	}
	if diff := cmp.Diff(before, key(t, db, "k"), cmp.AllowUnexported(idempotency.Key{}), ignoreAge); diff != "" {
		t.Errorf("the stored answer changed (-before +after):\n%s", diff)
	}
}

func TestGetIsScopedByUser(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	a, err := newFlow(t, db, newLedger()).Create(testCtx(t), purchase(t, "k"))
	if err != nil {
		t.Fatal(err)
	}
	want := paymentIn(t, a)
	if got, err := payment.Get(testCtx(t), db.DB, user, want.ID); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := payment.Get(testCtx(t), db.DB, user+1, want.ID); !errors.Is(err, payment.ErrNotFound) {
		t.Errorf("another user's: %v; want ErrNotFound", err)
	}
	if list, err := payment.List(testCtx(t), db.DB, user+1, "", "", 10); err != nil || len(list) != 0 {
		t.Errorf("another user's list: %+v, %v", list, err)
	}
}

func TestListPagesNewestFirst(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	f := newFlow(t, db, newLedger())
	var want []string
	for _, k := range []string{"a", "b", "c", "d", "e"} {
		a, err := f.Create(testCtx(t), purchase(t, k))
		if err != nil {
			t.Fatal(err)
		}
		want = append([]string{paymentIn(t, a).ID}, want...)
	}
	var got []string
	before := ""
	for range 4 {
		page, err := payment.List(testCtx(t), db.DB, user, "", before, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range page {
			got = append(got, p.ID)
			before = p.ID
		}
		// What arrives between two pages is newer than all that is still to come.
		if _, err := f.Create(testCtx(t), purchase(t, "new"+before[len(before)-8:])); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWaitIsBounded(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	bank := newLedger()
	in, out := make(chan struct{}), make(chan struct{})
	bank.around = func(_ context.Context, _ int, truth func() psp.Result) psp.Result {
		close(in)
		<-out
		return truth()
	}
	f := newFlow(t, db, bank)
	done := make(chan error)
	go func() {
		_, err := f.Create(testCtx(t), purchase(t, "k"))
		done <- err
	}()
	<-in
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := f.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with a request under way: %v; want the context's error", err)
	}
	close(out)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := f.Wait(testCtx(t)); err != nil {
		t.Errorf("after it: %v", err)
	}
}
