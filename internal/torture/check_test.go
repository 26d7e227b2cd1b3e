package torture

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	paymentsv1 "chargeonce/api/payments/v1"
)

var noon = time.Date(2025, 11, 30, 12, 0, 0, 0, time.UTC)

func at(ms int) time.Time { return noon.Add(time.Duration(ms) * time.Millisecond) }

// row is a write by a process, at a time in milliseconds.
func row(writer string, ms int, op string, old, now keyState) auditRow {
	return auditRow{writer: writer, at: at(ms), began: at(ms), conn: 1, op: op, slot: slot{1, "k"}, old: old, now: now}
}

func processing(lease int64, holder string, untilMS int) keyState {
	return keyState{status: "processing", lease: lease, holder: holder, until: at(untilMS)}
}

func done(lease int64, holder string, untilMS, doneMS int, body int64) keyState {
	return keyState{status: "done", lease: lease, holder: holder, until: at(untilMS), code: 201, body: body, done: at(doneMS)}
}

func TestAuditTellsTheHoldersWritesFromAStaleOnes(t *testing.T) {
	t.Parallel()
	claim := row("one", 0, "INSERT", keyState{}, processing(1, "a", 100))
	takeOver := row("two", 150, "UPDATE", processing(1, "a", 100), processing(2, "b", 300))
	release := row("one", 50, "UPDATE", processing(1, "a", 100), processing(1, "a", 50))
	finish := row("one", 50, "UPDATE", processing(1, "a", 100), done(1, "a", 100, 50, 7))
	otherConn := func(r auditRow) auditRow {
		r.conn = 2
		return r
	}
	tests := []struct {
		name string
		rows []auditRow
		want int // violations of promise 5
	}{
		{"claim and finish", []auditRow{claim, finish}, 0},
		{"a second release after a lost answer", []auditRow{claim, release, row("one", 60, "UPDATE", processing(1, "a", 50), processing(1, "a", 60))}, 0},
		{"a take-over of a lease that is over", []auditRow{claim, takeOver, row("two", 200, "UPDATE", processing(2, "b", 300), done(2, "b", 300, 200, 7))}, 0},
		{"a take-over after a release", []auditRow{claim, release, row("two", 60, "UPDATE", processing(1, "a", 50), processing(2, "b", 300))}, 0},
		{"the nemesis ends a lease", []auditRow{claim, row("torture", 10, "UPDATE", processing(1, "a", 100), processing(1, "a", 10)), finish}, 0},
		{"the answer restated by its finish", []auditRow{claim, finish, row("one", 51, "UPDATE", done(1, "a", 100, 50, 7), done(1, "a", 100, 50, 8))}, 0},
		{"the body dropped", []auditRow{claim, finish, row("reconcile-a", 90, "UPDATE", done(1, "a", 100, 50, 7), done(1, "a", 100, 50, 0))}, 0},
		{"a write that changes nothing", []auditRow{claim, row("two", 5, "UPDATE", processing(1, "a", 100), processing(1, "a", 100))}, 0},

		{"a take-over of a lease that lasts", []auditRow{claim, row("two", 50, "UPDATE", processing(1, "a", 100), processing(2, "b", 300))}, 1},
		{"a take-over that does not raise the lease", []auditRow{claim, row("two", 150, "UPDATE", processing(1, "a", 100), processing(1, "b", 300))}, 1},
		{"a finish by the old holder", []auditRow{claim, takeOver, row("one", 160, "UPDATE", processing(2, "b", 300), done(2, "b", 300, 160, 7))}, 1},
		{"a release by the old holder", []auditRow{claim, takeOver, row("one", 160, "UPDATE", processing(2, "b", 300), processing(2, "b", 160))}, 1},
		{"a finish after a release", []auditRow{claim, release, row("one", 60, "UPDATE", processing(1, "a", 50), done(1, "a", 50, 60, 7))}, 1},
		{"a second finish", []auditRow{claim, finish, row("one", 70, "UPDATE", done(1, "a", 100, 50, 7), done(1, "a", 100, 70, 7))}, 1},
		{"another answer later", []auditRow{claim, finish, otherConn(row("one", 70, "UPDATE", done(1, "a", 100, 50, 7), done(1, "a", 100, 50, 8)))}, 1},
		{"a second claim", []auditRow{claim, claim}, 1},
		{"a delete", []auditRow{claim, row("one", 10, "DELETE", processing(1, "a", 100), keyState{})}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var v verdicts
			(&books{audit: tt.rows}).checkAudit(&v)
			if v.count[5] != tt.want {
				t.Errorf("%d violations, want %d: %v", v.count[5], tt.want, v.found)
			}
		})
	}
}

func TestAnswersOfOneKeyMustHaveAnOrder(t *testing.T) {
	t.Parallel()
	type told struct {
		from, to int // milliseconds
		reason   string
	}
	tests := []struct {
		name string
		told []told
		want int
	}{
		{"busy, then the answer, twice", []told{{0, 10, "IDEMPOTENCY_KEY_IN_PROGRESS"}, {20, 30, "ok"}, {40, 50, "ok"}}, 0},
		{"busy while the answer is on its way", []told{{0, 30, "ok"}, {10, 40, "IDEMPOTENCY_KEY_IN_PROGRESS"}}, 0},
		{"the database away after the answer", []told{{0, 10, "ok"}, {20, 30, "UNAVAILABLE"}}, 0},
		{"two answers", []told{{0, 10, "ok"}, {20, 30, "CARD_DECLINED"}}, 1},
		{"two answers at once", []told{{0, 30, "ok"}, {10, 20, "CARD_DECLINED"}}, 1},
		{"busy after the answer", []told{{0, 10, "ok"}, {20, 30, "IDEMPOTENCY_KEY_IN_PROGRESS"}}, 1},
		{"unknown after the answer", []told{{0, 10, "ok"}, {20, 30, "PSP_OUTCOME_UNKNOWN"}}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := &books{}
			for _, one := range tt.told {
				a := answer{reason: one.reason, heard: true, action: paymentsv1.NextAction_RETRY_SAME_KEY}
				if one.reason == "ok" || finalReasons[one.reason] {
					a.final = one.reason
				}
				b.ops = append(b.ops, op{slot: slot{1, "k"}, act: actPay, called: at(one.from), returned: at(one.to), answer: a})
			}
			var v verdicts
			b.checkLinearizable(&v)
			if v.count[4] != tt.want {
				t.Errorf("%d violations, want %d: %v", v.count[4], tt.want, v.found)
			}
		})
	}
}

// sound are books in which all is as it must be: user 1 has bought one thing.
func sound() *books {
	s := slot{1, "k"}
	return &books{
		cfg:       Config{Guard: true},
		purchases: map[slot]purchase{s: {slot: s, order: "u1.o", amount: 5, currency: "EUR", token: "tok_visa"}},
		keys:      []keyRow{{slot: s, status: "done", payment: "pay_1", order: "u1.o", amount: 5, currency: "EUR"}},
		payments:  []paymentRow{{user: 1, id: "pay_1", order: "u1.o", amount: 5, currency: "EUR", status: "succeeded", charge: "ch_1"}},
		charges:   []charge{soundCharge("ch_1", "psp_1", "pay_1")},
		ops: []op{{slot: s, act: actPay, called: at(0), returned: at(9),
			answer: answer{final: "SUCCEEDED pay_1 5 EUR u1.o …", paymentID: "pay_1", reason: "ok", heard: true}}},
	}
}

func soundCharge(id, key, payment string) charge {
	return charge{ID: id, IdempotencyKey: key, Amount: 5, Currency: "EUR", Status: "succeeded",
		Metadata: map[string]string{"user_id": "1", "payment_id": payment, "order_id": "u1.o"}}
}

func TestCheckNamesThePromiseThatIsBroken(t *testing.T) {
	t.Parallel()
	refused := func(reason string) answer {
		return answer{final: reason, reason: reason, heard: true, action: paymentsv1.NextAction_NEW_KEY}
	}
	tests := []struct {
		name  string
		spoil func(*books)
		want  []int // the promises, without repeats
	}{
		{"nothing", func(*books) {}, nil},
		{"two charges under one PSP key", func(b *books) {
			b.charges = append(b.charges, soundCharge("ch_2", "psp_1", "pay_1"))
			b.payments = append(b.payments, paymentRow{user: 1, id: "pay_2", order: "u1.o", amount: 5, currency: "EUR", status: "succeeded", charge: "ch_2"})
		}, []int{1, 10}},
		{"a refund", func(b *books) { b.charges[0].Status, b.payments[0].status = "refunded", "refunded" }, []int{1}},
		{"a charge without a payment", func(b *books) { b.payments = nil }, []int{2}},
		{"a charge with another amount", func(b *books) { b.payments[0].amount = 6 }, []int{2}},
		{"a charge that is pending here", func(b *books) { b.payments[0].status = "pending" }, []int{2}},
		{"a payment without a charge", func(b *books) {
			b.payments = append(b.payments, paymentRow{user: 1, id: "pay_9", charge: "ch_9"})
		}, []int{3}},
		{"a key that is processing", func(b *books) { b.keys[0].status = "processing" }, []int{6}},
		{"a parked key", func(b *books) { b.keys[0].status = "parked" }, []int{6}},
		{"a client that never learnt", func(b *books) { b.open = map[slot]bool{{1, "k"}: true} }, []int{6}},
		{"an answer that is neither final nor retry", func(b *books) {
			b.ops = append(b.ops, op{slot: slot{1, "k"}, act: actPay, answer: answer{reason: "REQUEST_INVALID", action: paymentsv1.NextAction_FIX_REQUEST}})
		}, []int{4}},
		{"a refusal of what was charged", func(b *books) { b.ops[0].answer = refused("PAYMENT_ABANDONED") }, []int{4}},
		{"a refusal that the token cannot meet", func(b *books) {
			b.charges, b.payments = nil, nil
			b.ops[0].answer = refused("PSP_REJECTED")
		}, []int{4}},
		{"an answer about no charge", func(b *books) { b.charges, b.payments = nil, nil }, []int{4}},
		{"another's purchase", func(b *books) { b.ops[0].answer.final = "SUCCEEDED pay_1 5 EUR u2.o …" }, []int{8}},
		{"a misuse that is answered", func(b *books) {
			b.ops = append(b.ops, op{slot: slot{1, "k"}, act: actMisuse, answer: answer{final: "SUCCEEDED", reason: "ok"}})
		}, []int{4}},
		{"another's payment found", func(b *books) {
			b.ops = append(b.ops, op{slot: slot{user: 1}, act: actForeign, answer: answer{final: "SUCCEEDED", reason: "ok"}})
		}, []int{8}},
		{"an order that is paid twice", func(b *books) {
			b.charges = append(b.charges, soundCharge("ch_2", "psp_2", "pay_2"))
			b.payments = append(b.payments, paymentRow{user: 1, id: "pay_2", order: "u1.o", amount: 5, currency: "EUR", status: "succeeded", charge: "ch_2"})
		}, []int{10}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := sound()
			tt.spoil(b)
			var got []int
			for _, v := range b.check() {
				if len(got) == 0 || got[len(got)-1] != v.promise {
					got = append(got, v.promise)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("promises (-want +got):\n%s%s", diff, fmt.Sprint(b.check()))
			}
		})
	}
}
