package payment_test

import (
	"fmt"
	"testing"
	"time"

	"chargeonce/internal/idempotency"
	"chargeonce/internal/mysql"
	"chargeonce/internal/payment"
)

// What waits while a commit is under way shares the next one; and where one of a batch has lost its lease, or its payment is there
// already, the others are none the worse.
func TestFinishesThatWaitShareACommit(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*testing.T, *mysql.TestDB, *payment.Flow, *ledger){
		"nothing in the way": nil,
		"one was taken over": func(t *testing.T, db *mysql.TestDB, other *payment.Flow, _ *ledger) {
			expire(t, db, "k7")
			if a, err := other.Create(testCtx(t), purchase(t, "k7")); err != nil || a.Stored.Code != 201 {
				t.Errorf("the new holder: %+v, %v", a, err)
			}
		},
		"the webhook was first for one": func(t *testing.T, db *mysql.TestDB, other *payment.Flow, bank *ledger) {
			c := bank.charges[idempotency.PSPKey(user, purchase(t, "k7").Key)]
			if _, err := apply(t, db, other, c); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := mysql.NewTestDB(t)
			bank := newLedger()
			proxy := mysql.NewFaultProxy(t, db.DSN)
			f := flowOn(t, proxy.DSN, bank, payment.Timing{StoreTimeout: 20 * time.Second})
			f.Coalesce()

			gate := make(chan struct{})
			proxy.Inject(mysql.Fault{Kind: mysql.Delay, Match: "COMMIT", Times: 2, Deliver: gate})
			var got []<-chan outcome
			send := func(from, to int) {
				for i := from; i < to; i++ {
					got = append(got, begin(t, f, purchase(t, fmt.Sprintf("k%d", i))))
				}
			}
			send(0, 1)
			proxy.AwaitFired(t, "COMMIT", 1) // both workers are to be at a commit
			send(1, 2)
			proxy.AwaitFired(t, "COMMIT", 2)
			const all = 40
			send(2, all)
			for n := 0; payment.WaitingToFinish(f) < all-2; n++ {
				if err := mysql.Pause(testCtx(t), n, 10*time.Millisecond); err != nil {
					t.Fatalf("%d wait to finish; want %d", payment.WaitingToFinish(f), all-2)
				}
			}
			if spoil != nil {
				spoil(t, db, newFlow(t, db, bank), bank)
			}
			open := make(chan struct{})
			close(open)
			proxy.Inject(mysql.Fault{Kind: mysql.Delay, Match: "COMMIT", Times: 1 << 30, Deliver: open}) // counts the rest
			close(gate)
			for i, g := range got {
				if o := <-g; o.err != nil || o.a.Stored.Code != 201 {
					t.Errorf("k%d: %+v, %v; want 201", i, o.a, o.err)
				}
			}
			if n := proxy.Fired("COMMIT"); spoil == nil && n > 4 {
				t.Errorf("%d commits for %d payments; want the two that were held, and at most two more", n, all)
			}
			if list := rows(t, db); len(list) != all || bank.count() != all {
				t.Errorf("%d rows, %d charges; want %d of each", len(list), bank.count(), all)
			}
			var unfinished int
			if err := db.QueryRowContext(testCtx(t), `SELECT COUNT(*) FROM idempotency_keys k LEFT JOIN payments p ON p.user_id = k.user_id AND p.id = k.payment_id
				WHERE k.status <> 'done' OR p.id IS NULL OR INSTR(k.response_body, p.charge_id) = 0 OR k.response_code <> 201`).Scan(&unfinished); err != nil || unfinished != 0 {
				t.Errorf("%d keys are not done with their own payment's answer, %v", unfinished, err)
			}
		})
	}
}
