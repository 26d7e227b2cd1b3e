package payment_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chargeonce/internal/idempotency"
	"chargeonce/internal/mysql"
	"chargeonce/internal/payment"
	"chargeonce/internal/psp"
)

func testAPurchaseIsChargedOnceAndItsAnswerReplayed(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	bank := newLedger()
	f := newFlow(t, db, bank)
	first, err := f.Create(testCtx(t), purchase(t, "k"))
	if err != nil {
		t.Fatal(err)
	}
	if p := paymentIn(t, first); first.Replayed || first.Stored.Code != 201 || p.Status != payment.Succeeded || p.ChargeID != "ch_o-k" {
		t.Errorf("first answer %+v: %s", first, first.Stored.Body)
	}
	if diff := cmp.Diff([]payment.Payment{paymentIn(t, first)}, rows(t, db)); diff != "" {
		t.Errorf("the row is not what the answer says (-answer +row):\n%s", diff)
	}
	second, err := newFlow(t, db, bank).Create(testCtx(t), purchase(t, "k"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(payment.Answer{Stored: first.Stored, Replayed: true}, second); diff != "" {
		t.Error(diff)
	}
	if bank.posts != 1 {
		t.Errorf("%d requests to the PSP; want 1", bank.posts)
	}
}

func testManyAtOnceWithOneKey(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	bank := newLedger()
	flows := []*payment.Flow{newFlow(t, db, bank), newFlow(t, db, bank)}
	var (
		wg      sync.WaitGroup
		start   = make(chan struct{})
		answers = make(chan string, 64)
	)
	for i := range cap(answers) {
		wg.Go(func() {
			<-start
			a, err := flows[i%2].Create(testCtx(t), purchase(t, "k"))
			var busy *idempotency.InProgressError
			switch {
			case errors.As(err, &busy):
				answers <- "in progress"
			case err != nil:
				answers <- err.Error()
			case a.Replayed:
				answers <- "replayed " + string(a.Stored.Body)
			default:
				answers <- "first " + string(a.Stored.Body)
			}
		})
	}
	close(start)
	wg.Wait()
	close(answers)
	body := string(key(t, db, "k").Stored.Body)
	got := map[string]int{}
	for a := range answers {
		got[a]++
	}
	if got["first "+body] != 1 || got["first "+body]+got["replayed "+body]+got["in progress"] != 64 {
		t.Errorf("answers %v; want one first, and the rest in progress or its replay", got)
	}
	if bank.posts != 1 || bank.count() != 1 || len(rows(t, db)) != 1 {
		t.Errorf("%d requests, %d charges, %d rows; want 1 of each", bank.posts, bank.count(), len(rows(t, db)))
	}
}

func testADeclineIsStoredAndReplayed(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	bank := newLedger()
	f := newFlow(t, db, bank)
	p := purchase(t, "k")
	p.PaymentMethod = "tok_declined"
	for i, replayed := range []bool{false, true} {
		a, err := f.Create(testCtx(t), p)
		if err != nil || a.Replayed != replayed || string(a.Stored.Body) != "declined do_not_honor" {
			t.Errorf("answer %d: %+v %s, %v", i+1, a, a.Stored.Body, err)
		}
	}
	if bank.posts != 1 || len(rows(t, db)) != 0 {
		t.Errorf("%d requests, %d rows; want 1 and 0", bank.posts, len(rows(t, db)))
	}
}

// stale plays the story of the stale holder: A claims, and freezes once the PSP has charged; its lease ends; B comes with the
// same key. wakeWhileBWaits tells when A wakes: while B waits for the PSP, or after B has finished.
func stale(t *testing.T, wakeWhileBWaits, dropUnique bool) {
	db := mysql.NewTestDB(t)
	if dropUnique {
		exec(t, db, `ALTER TABLE payments DROP INDEX charge`)
	}
	var (
		frozen, wake    = make(chan struct{}), make(chan struct{})
		bAsks, answerTo = make(chan struct{}), make(chan struct{})
	)
	bank := newLedger()
	bank.around = func(_ context.Context, n int, truth func() psp.Result) psp.Result {
		res := truth()
		if n == 1 {
			close(frozen)
			<-wake
		} else if wakeWhileBWaits {
			close(bAsks)
			<-answerTo
		}
		return res
	}
	type outcome struct {
		answer payment.Answer
		err    error
	}
	run := func(got chan<- outcome) {
		a, err := newFlow(t, db, bank).Create(testCtx(t), purchase(t, "k"))
		got <- outcome{a, err}
	}
	a, b := make(chan outcome, 1), make(chan outcome, 1)
	go run(a)
	<-frozen
	expire(t, db, "k")
	go run(b)

	var fromA, fromB outcome
	if wakeWhileBWaits {
		<-bAsks
		before := key(t, db, "k")
		close(wake)
		fromA = <-a
		var busy *idempotency.InProgressError
		if !errors.As(fromA.err, &busy) {
			t.Errorf("A woke while B waited and got %+v, %v; want in progress", fromA.answer, fromA.err)
		}
		if diff := cmp.Diff(before, key(t, db, "k"), cmp.AllowUnexported(idempotency.Key{}), ignoreAge); diff != "" {
			t.Errorf("A changed the key's row (-before +after):\n%s", diff)
		}
		if n := len(rows(t, db)); n != 0 {
			t.Errorf("A wrote %d payments", n)
		}
		close(answerTo)
		fromB = <-b
	} else {
		fromB = <-b
		before := key(t, db, "k")
		close(wake)
		fromA = <-a
		if fromA.err != nil || !fromA.answer.Replayed || string(fromA.answer.Stored.Body) != string(fromB.answer.Stored.Body) {
			t.Errorf("A woke last and got %+v, %v; want B's answer replayed", fromA.answer, fromA.err)
		}
		if diff := cmp.Diff(before, key(t, db, "k"), cmp.AllowUnexported(idempotency.Key{}), ignoreAge); diff != "" {
			t.Errorf("A changed the key's row (-before +after):\n%s", diff)
		}
	}
	if fromB.err != nil || fromB.answer.Replayed || fromB.answer.Stored.Code != 201 {
		t.Errorf("B got %+v, %v; want 201", fromB.answer, fromB.err)
	}
	if row := key(t, db, "k"); row.Lease != 2 || row.Status != idempotency.Done {
		t.Errorf("the key is %s under lease %d; want done under B's, 2", row.Status, row.Lease)
	}
	if diff := cmp.Diff([]payment.Payment{paymentIn(t, fromB.answer)}, rows(t, db)); diff != "" {
		t.Errorf("the rows are not B's one (-B +rows):\n%s", diff)
	}
	if bank.count() != 1 {
		t.Errorf("%d charges; want 1", bank.count())
	}
}

// ignoreAge leaves out what passes by itself.
var ignoreAge = cmp.FilterPath(func(p cmp.Path) bool {
	name := p.Last().String()
	return name == ".LeaseLeft" || name == ".SinceAttempt" || name == ".Age"
}, cmp.Ignore())

func testTheStaleHolderWritesNothing(t *testing.T) {
	t.Parallel()
	for _, waits := range []bool{false, true} {
		for _, dropped := range []bool{false, true} {
			name := map[bool]string{false: "the new holder finishes first", true: "the old one wakes while the new one waits"}[waits] +
				map[bool]string{false: "", true: ", without UNIQUE (charge_id)"}[dropped]
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				stale(t, waits, dropped)
			})
		}
	}
}

// What the PSP said decides: everything that is not its verdict releases the key, stores nothing, and a retry is charged once.
func testWhatIsNotFinalIsReleasedAndNeverStored(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	for _, tc := range []struct {
		name  string
		first psp.Result
		why   payment.Undecided
	}{
		{"unknown", psp.Result{Kind: psp.Unknown, Err: errors.New("HTTP 500")}, payment.OutcomeUnknown},
		{"time-out", psp.Result{Kind: psp.Unknown, Err: fmt.Errorf("attempt 4: %w", context.DeadlineExceeded)}, payment.DeadlineOver},
		{"still-working", psp.Result{Kind: psp.StillWorking}, payment.OutcomeUnknown},
		{"never-seen", psp.Result{Kind: psp.NeverSeen}, payment.OutcomeUnknown},
		{"breaker", psp.Result{Kind: psp.NotSent, NotSent: psp.BreakerOpen, RetryAfter: time.Second}, payment.PSPUnavailable},
		{"refused", psp.Result{Kind: psp.NotSent, NotSent: psp.ConnectFailed}, payment.PSPUnavailable},
		{"bulkhead", psp.Result{Kind: psp.NotSent, NotSent: psp.BulkheadFull}, payment.Overloaded},
		{"too-late", psp.Result{Kind: psp.NotSent, NotSent: psp.DeadlineTooLow}, payment.DeadlineOver},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			bank := newLedger()
			bank.around = func(_ context.Context, n int, truth func() psp.Result) psp.Result {
				if res := truth(); n > 1 {
					return res
				}
				return tc.first // though it did charge
			}
			f := newFlow(t, db, bank)
			_, err := f.Create(testCtx(t), purchase(t, tc.name))
			var undecided *payment.UndecidedError
			if !errors.As(err, &undecided) || undecided.Why != tc.why || undecided.RetryAfter != tc.first.RetryAfter {
				t.Fatalf("error %v; want undecided: %s", err, tc.why)
			}
			if row := key(t, db, tc.name); row.Status != idempotency.Processing || row.LeaseLeft > 0 || row.Stored.Code != 0 {
				t.Errorf("the key is %+v; want it processing and released", row)
			}
			if a, err := f.Create(testCtx(t), purchase(t, tc.name)); err != nil || a.Stored.Code != 201 {
				t.Errorf("the retry got %+v, %v; want 201", a, err)
			}
			if bank.count() != 1 {
				t.Errorf("%d charges; want 1", bank.count())
			}
		})
	}
}

// "Nothing was sent" holds for a request, not for the key: whoever held it before may have charged.
func testNotSentAfterATakeOverIsUnknown(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	bank := newLedger()
	bank.around = func(_ context.Context, n int, truth func() psp.Result) psp.Result {
		if n == 1 {
			truth()
			return psp.Result{Kind: psp.Unknown}
		}
		return psp.Result{Kind: psp.NotSent, NotSent: psp.BreakerOpen}
	}
	f := newFlow(t, db, bank)
	for i := range 2 {
		_, err := f.Create(testCtx(t), purchase(t, "k"))
		var undecided *payment.UndecidedError
		if !errors.As(err, &undecided) || undecided.Why != payment.OutcomeUnknown {
			t.Errorf("request %d: %v; want outcome unknown", i+1, err)
		}
	}
}

func testAMismatchIsParked(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	bank := newLedger()
	bank.around = func(context.Context, int, func() psp.Result) psp.Result {
		return psp.Result{Kind: psp.Mismatch, Err: errors.New("amount 1999, the PSP says 2999")}
	}
	f := newFlow(t, db, bank)
	for range 2 {
		if _, err := f.Create(testCtx(t), purchase(t, "k")); !errors.Is(err, idempotency.ErrParked) {
			t.Errorf("%v; want ErrParked", err)
		}
	}
	if row := key(t, db, "k"); row.Status != idempotency.Parked || row.ParkedFor != "amount 1999, the PSP says 2999" {
		t.Errorf("row %+v", row)
	}
	if bank.posts != 1 {
		t.Errorf("%d requests to the PSP; a parked key must not be charged", bank.posts)
	}
}

// A payment row for this charge that is about something else is never overwritten and never hidden.
func testARowThatDiffersIsParked(t *testing.T) {
	t.Parallel()
	for column, value := range map[string]any{"user_id": 7, "order_id": "other", "amount": 5, "currency": "USD"} {
		t.Run(column, func(t *testing.T) {
			t.Parallel()
			db := mysql.NewTestDB(t)
			exec(t, db, `INSERT INTO payments VALUES (?, 'pay_x', 'o-k', 1999, 'EUR', 'succeeded', 'ch_o-k', NOW(3), NOW(3))`, user)
			exec(t, db, `UPDATE payments SET `+column+` = ?`, value)
			f := newFlow(t, db, newLedger())
			if _, err := f.Create(testCtx(t), purchase(t, "k")); !errors.Is(err, idempotency.ErrParked) {
				t.Errorf("%v; want ErrParked", err)
			}
			if row := key(t, db, "k"); row.Status != idempotency.Parked || row.Stored.Code != 0 {
				t.Errorf("row %+v", row)
			}
			var n int
			if err := db.QueryRowContext(testCtx(t), `SELECT COUNT(*) FROM payments`).Scan(&n); err != nil || n != 1 {
				t.Errorf("%d rows, %v; want 1", n, err)
			}
		})
	}
}

func testAClientThatHangsUpDuringTheChargeIsChargedOnceAndRecorded(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	bank := newLedger()
	ctx, hangUp := context.WithCancel(testCtx(t))
	bank.around = func(charge context.Context, _ int, truth func() psp.Result) psp.Result {
		hangUp()
		if err := charge.Err(); err != nil {
			t.Errorf("the charge died with the client: %v", err)
		}
		return truth()
	}
	f := newFlow(t, db, bank)
	a, err := f.Create(ctx, purchase(t, "k"))
	if err != nil || a.Stored.Code != 201 {
		t.Errorf("%+v, %v; want the result recorded", a, err)
	}
	if row := key(t, db, "k"); row.Status != idempotency.Done || len(rows(t, db)) != 1 {
		t.Errorf("key %+v, %d rows", row, len(rows(t, db)))
	}
	if err := f.Wait(testCtx(t)); err != nil {
		t.Error(err)
	}
}

func testTooLittleTimeIsRefusedBeforeTheClaim(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	bank := newLedger()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := newFlow(t, db, bank).Create(ctx, purchase(t, "k"))
	var undecided *payment.UndecidedError
	if !errors.As(err, &undecided) || undecided.Why != payment.DeadlineOver {
		t.Errorf("%v; want deadline over", err)
	}
	if _, err := idempotency.NewStore(db.DB).Read(testCtx(t), user, purchase(t, "k").Key); !errors.Is(err, idempotency.ErrNotFound) {
		t.Errorf("the key: %v; want none", err)
	}
	if bank.posts != 0 {
		t.Error("the PSP was asked")
	}
}

// The lease must last until the deadline, a finish that begins at the last moment, and the margin.
func testTheLeaseExceedsTheDeadline(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	bank := newLedger()
	ctx := testCtx(t)
	deadline, _ := ctx.Deadline()
	bank.around = func(charge context.Context, _ int, truth func() psp.Result) psp.Result {
		until, ok := charge.Deadline()
		if want := deadline.Add(-200 * time.Millisecond); !ok || !until.Equal(want) {
			t.Errorf("the charge may last until %v; want the deadline less the reserve, %v", until, want)
		}
		row := key(t, db, "k")
		if least := time.Until(deadline) + 3*time.Second + 3*time.Second; row.LeaseLeft < least {
			t.Errorf("%s of the lease are left; want at least %s", row.LeaseLeft, least)
		}
		return truth()
	}
	if _, err := newFlow(t, db, bank).Create(ctx, purchase(t, "k")); err != nil {
		t.Fatal(err)
	}
}

// A charge that was made under an earlier row of the same key comes back as it is now.
func testWhatTheChargeIsNowIsWhatIsRecorded(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	for _, tc := range []struct {
		status string
		code   int
		body   string // of a refusal
	}{{"pending", 202, ""}, {"succeeded", 201, ""}, {"canceled", 201, ""}, {"refunded", 201, ""}, {"failed", 402, "declined "}} {
		bank := newLedger()
		bank.status = tc.status
		a, err := newFlow(t, db, bank).Create(testCtx(t), purchase(t, tc.status))
		if err != nil || a.Stored.Code != tc.code || tc.body != "" && string(a.Stored.Body) != tc.body {
			t.Errorf("%s: %d %s, %v; want %d", tc.status, a.Stored.Code, a.Stored.Body, err, tc.code)
		}
		list, err := payment.List(testCtx(t), db.DB, user, "o-"+tc.status, "", 10)
		if err != nil || len(list) != 1 || string(list[0].Status) != tc.status {
			t.Errorf("%s: rows %+v, %v", tc.status, list, err)
		}
	}
}
