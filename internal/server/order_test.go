package server_test

import (
	"net/http"
	"testing"
	"time"

	paymentsv1 "chargeonce/api/payments/v1"
	gatewaysim "chargeonce/gateway-sim"
)

// A customer who reinstalls the app has lost the key, and the app makes another one for the same order.
func TestAnAppThatLostItsKeyNeitherPaysTwiceNorIsLockedOut(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{onePerOrder: true})
	fault := func(order string, r gatewaysim.Rule) gatewaysim.Rule {
		r.Status, r.Count = 500, 1
		r.Match = gatewaysim.Match{Method: http.MethodPost, Path: "/charges", Exact: true, OrderID: order}
		return r
	}
	if err := e.sim.SetFaults(gatewaysim.Faults{Rules: []gatewaysim.Rule{
		fault("charged", gatewaysim.Rule{Fault: gatewaysim.LoseAnswer, How: gatewaysim.LostByError}),
		fault("not-charged", gatewaysim.Rule{Fault: gatewaysim.ErrorAnswer}),
	}}); err != nil {
		t.Fatal(err)
	}

	t.Run("the first charge succeeded, its answer was lost", func(t *testing.T) {
		t.Parallel()
		e, _, lost := e.in(t).create(overREST, "", purchase("charged"))
		_, key, again := e.create(overREST, "", purchase("charged"))
		if lost.Reason != "PSP_OUTCOME_UNKNOWN" || again.HTTP != 409 || again.Reason != "ORDER_ALREADY_PAID" || again.NextAction != stop {
			t.Fatalf("first %+v\nagain %+v", lost, again)
		}
		if row := e.keyRow(key); row != "none" {
			t.Errorf("the second key's row: %s, want none", row)
		}
		paid := e.send(overREST, sending{message: &paymentsv1.GetPaymentRequest{Id: again.Extra["payment_id"]}})
		if paid.HTTP != 200 || paid.Payment.GetOrderId() != "charged" || paid.Payment.GetStatus() != paymentsv1.Payment_SUCCEEDED {
			t.Errorf("the payment that the error names: %d %s", paid.HTTP, paid.Body)
		}
		if n := e.charges("charged"); n != 1 {
			t.Errorf("%d charges, want 1", n)
		}
	})

	t.Run("the first charge never happened", func(t *testing.T) {
		t.Parallel()
		e, first, lost := e.in(t).create(overREST, "", purchase("not-charged"))
		_, _, again := e.create(overREST, "", purchase("not-charged"))
		if lost.Reason != "PSP_OUTCOME_UNKNOWN" || again.HTTP != 201 || again.Replayed {
			t.Fatalf("first %+v\nagain %+v", lost, again)
		}
		// Should the old app's request turn up once more, it must not pay either.
		if _, _, old := e.create(overREST, first, purchase("not-charged")); old.HTTP != 410 || old.Reason != "PAYMENT_ABANDONED" {
			t.Errorf("the first key afterwards: %+v", old)
		}
		if n := e.charges("not-charged"); n != 1 {
			t.Errorf("%d charges, want 1", n)
		}
	})
}

func TestAnOrderIsHeldUntilItsPaymentHasFailed(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{onePerOrder: true})
	other := newEnv(t, options{db: e.db, sim: e.sim, onePerOrder: true, user: 43})
	for _, f := range faces {
		t.Run(string(f)+" under way", func(t *testing.T) {
			t.Parallel()
			e, req := e.in(t), purchase(unique("o"))
			e.holdOrder(unique("first"), req)
			if _, _, got := e.create(f, "", req); got.Reason != "ORDER_IN_PROGRESS" || got.RetryAfter <= 0 || got.RetryAfter > time.Second {
				t.Errorf("another key: %+v", got)
			}
			if _, _, got := other.in(t).create(f, "", req); got.Payment == nil {
				t.Errorf("another user's order of that name: %+v", got)
			}
		})
		t.Run(string(f)+" pending", func(t *testing.T) {
			t.Parallel()
			e, req := e.in(t), named(unique("o"), "tok_pending")
			if _, _, got := e.create(f, "", req); got.Payment.GetStatus() != paymentsv1.Payment_PENDING {
				t.Fatalf("%+v", got)
			}
			if _, _, got := e.create(f, "", req); got.Reason != "ORDER_IN_PROGRESS" {
				t.Errorf("another key: %+v", got)
			}
		})
		t.Run(string(f)+" declined", func(t *testing.T) {
			t.Parallel()
			e, order := e.in(t), unique("o")
			if _, _, got := e.create(f, "", named(order, "tok_declined")); got.Reason != "CARD_DECLINED" {
				t.Fatalf("%+v", got)
			}
			if _, _, got := e.create(f, "", purchase(order)); got.Payment == nil {
				t.Errorf("another card under another key: %+v", got)
			}
		})
	}
}
