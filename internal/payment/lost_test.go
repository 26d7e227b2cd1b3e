package payment_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chargeonce/internal/idempotency"
	"chargeonce/internal/mysql"
	"chargeonce/internal/payment"
	"chargeonce/internal/psp"
)

// Every statement of the flow fails once at the network, in each of the ways in which it can: it never arrives, or its answer is
// lost. The request ends as if nothing had happened, and what is in the tables is what it says.
func testEveryStepSurvivesALostStatementAndALostAnswer(t *testing.T) {
	t.Parallel()
	direct := mysql.NewTestDB(t)
	steps := map[string]string{
		"claim":                "INSERT INTO idempotency_keys",
		"begin":                "START TRANSACTION",
		"finish of the key":    "SET status = 'done'",
		"finish: the payment":  "INSERT INTO payments",
		"finish: the COMMIT":   "COMMIT",
		"claim, read again":    "SELECT user_id, idem_key",
		"finish, everything":   "payments",
		"the second statement": "idempotency_keys",
	}
	kinds := map[string]mysql.FaultKind{
		"the statement is lost": mysql.LoseStatement, "the answer is lost": mysql.LoseAnswer, "the answer never comes": mysql.SwallowAnswer,
	}
	for step, match := range steps {
		for how, kind := range kinds {
			t.Run(step+", "+how, func(t *testing.T) {
				t.Parallel()
				k := "k" + idempotencySafe(step+how)
				proxy := mysql.NewFaultProxy(t, direct.DSN)
				proxy.Inject(mysql.Fault{Kind: kind, Match: match})
				bank := newLedger()
				// Short enough that an answer which never comes is given up and settled within the test.
				f := flowOn(t, proxy.DSN, bank, payment.Timing{StoreTimeout: 800 * time.Millisecond})
				a, err := f.Create(testCtx(t), purchase(t, k))
				if kind == mysql.SwallowAnswer && err != nil {
					// The step's own time was spent on waiting. The client sends the same key again, as it is told.
					if !mysql.Unavailable(err) {
						t.Fatalf("error %v; want one that says that the database did not answer", err)
					}
					expire(t, direct, k)
					a, err = f.Create(testCtx(t), purchase(t, k))
				}
				if err != nil || a.Stored.Code != 201 {
					t.Fatalf("%+v, %v; want 201", a, err)
				}
				list, err := payment.List(testCtx(t), direct.DB, user, "o-"+k, "", 10)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff([]payment.Payment{paymentIn(t, a)}, list); diff != "" {
					t.Errorf("the rows are not what was answered (-answer +rows):\n%s", diff)
				}
				if row := key(t, direct, k); row.Status != idempotency.Done || string(row.Stored.Body) != string(a.Stored.Body) {
					t.Errorf("the key holds %s %q; answered %q", row.Status, row.Stored.Body, a.Stored.Body)
				}
				if bank.count() != 1 {
					t.Errorf("%d charges; want 1", bank.count())
				}
				if step != "claim, read again" && proxy.Fired(match) != 1 {
					t.Errorf("the fault fired %d times; want 1", proxy.Fired(match))
				}
			})
		}
	}
}

func idempotencySafe(s string) string {
	out := []byte(s)
	for i, c := range out {
		if c == ' ' || c == ',' || c == ':' {
			out[i] = '-'
		}
	}
	return string(out)
}

// A finish whose COMMIT was lost is not taken for a replay: it is this request's own answer.
func testALostCommitIsOurOwnAnswer(t *testing.T) {
	t.Parallel()
	direct := mysql.NewTestDB(t)
	proxy := mysql.NewFaultProxy(t, direct.DSN)
	proxy.Inject(mysql.Fault{Kind: mysql.LoseAnswer, Match: "COMMIT"})
	a, err := flowOn(t, proxy.DSN, newLedger(), payment.Timing{}).Create(testCtx(t), purchase(t, "k"))
	if err != nil || a.Replayed || a.Stored.Code != 201 {
		t.Errorf("%+v, %v; want a first 201", a, err)
	}
}

// The COMMIT of the first run arrives while the second one waits for its row lock, or after it: the payment is written once.
func testACommitThatArrivesLate(t *testing.T) {
	t.Parallel()
	direct := mysql.NewTestDB(t)
	proxy := mysql.NewFaultProxy(t, direct.DSN)
	deliver, done := make(chan struct{}), make(chan struct{})
	proxy.Inject(mysql.Fault{Kind: mysql.HoldStatement, Match: "COMMIT", Deliver: deliver, Done: done})
	f := flowOn(t, proxy.DSN, newLedger(), payment.Timing{})
	type outcome struct {
		a   payment.Answer
		err error
	}
	got := make(chan outcome)
	go func() {
		a, err := f.Create(testCtx(t), purchase(t, "k"))
		got <- outcome{a, err}
	}()
	waitForLock(t, direct) // the second run stands before the row that the first one still holds
	close(deliver)
	<-done
	o := <-got
	if o.err != nil || o.a.Replayed || o.a.Stored.Code != 201 {
		t.Errorf("%+v, %v; want a first 201", o.a, o.err)
	}
	if diff := cmp.Diff([]payment.Payment{paymentIn(t, o.a)}, rows(t, direct)); diff != "" {
		t.Errorf("rows (-answer +rows):\n%s", diff)
	}
}

// waitForLock returns when some transaction of this database waits for a row lock.
func waitForLock(t *testing.T, db *mysql.TestDB) {
	t.Helper()
	ctx := testCtx(t)
	for n := 0; ; n++ {
		var waiting int
		err := db.QueryRowContext(ctx, `SELECT COUNT(*) FROM performance_schema.data_lock_waits w
			JOIN performance_schema.data_locks l ON l.engine_lock_id = w.requesting_engine_lock_id
			WHERE l.object_schema = DATABASE()`).Scan(&waiting)
		if err != nil {
			t.Fatal(err)
		}
		if waiting > 0 {
			return
		}
		if err := mysql.Pause(ctx, n, 10*time.Millisecond); err != nil {
			t.Fatal("nobody waited for a lock")
		}
	}
}

func testALostReleaseIsRepeated(t *testing.T) {
	t.Parallel()
	direct := mysql.NewTestDB(t)
	for _, kind := range []mysql.FaultKind{mysql.LoseStatement, mysql.LoseAnswer} {
		proxy := mysql.NewFaultProxy(t, direct.DSN)
		proxy.Inject(mysql.Fault{Kind: kind, Match: "SET locked_until = NOW(3)"})
		bank := newLedger()
		bank.around = func(context.Context, int, func() psp.Result) psp.Result { return psp.Result{Kind: psp.Unknown} }
		k := map[mysql.FaultKind]string{mysql.LoseStatement: "statement", mysql.LoseAnswer: "answer"}[kind]
		_, err := flowOn(t, proxy.DSN, bank, payment.Timing{}).Create(testCtx(t), purchase(t, k))
		var undecided *payment.UndecidedError
		if !errors.As(err, &undecided) {
			t.Errorf("%s: %v", k, err)
		}
		if row := key(t, direct, k); row.LeaseLeft > 0 || row.Status != idempotency.Processing {
			t.Errorf("%s lost: %s of the lease are left, status %s", k, row.LeaseLeft, row.Status)
		}
		if n := proxy.Fired("SET locked_until = NOW(3)"); n != 1 {
			t.Errorf("%s: the fault fired %d times", k, n)
		}
	}
}

// The client hangs up while the INSERT is on its way: the claim is not cancelled with it (it would be there all the same, held by
// nobody), and once it is known it is released, and nothing is charged.
func testAClientThatHangsUpDuringTheClaimLeavesNoLock(t *testing.T) {
	t.Parallel()
	direct := mysql.NewTestDB(t)
	proxy := mysql.NewFaultProxy(t, direct.DSN)
	held := make(chan struct{})
	proxy.Inject(mysql.Fault{Kind: mysql.Delay, Match: "INSERT INTO idempotency_keys", Deliver: held})
	bank := newLedger()
	f := flowOn(t, proxy.DSN, bank, payment.Timing{})
	ctx, hangUp := context.WithCancel(testCtx(t))
	got := make(chan error)
	go func() {
		_, err := f.Create(ctx, purchase(t, "k"))
		got <- err
	}()
	proxy.AwaitFired(t, "INSERT INTO idempotency_keys", 1)
	hangUp()
	close(held)
	var undecided *payment.UndecidedError
	if err := <-got; !errors.As(err, &undecided) || undecided.Why != payment.ClientLeft {
		t.Errorf("%v; want: the client left", err)
	}
	if row := key(t, direct, "k"); row.Status != idempotency.Processing || row.LeaseLeft > 0 {
		t.Errorf("the key is %+v; want it released", row)
	}
	if bank.posts != 0 {
		t.Error("the PSP was asked for a client who had left")
	}
}
