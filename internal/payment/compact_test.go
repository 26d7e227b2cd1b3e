package payment_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chargeonce/internal/mysql"
	"chargeonce/internal/payment"
	"chargeonce/internal/psp"
)

func testACompactedKeyReplaysTheSameBytes(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"succeeded", "pending"} {
		db := mysql.NewTestDB(t)
		bank := newLedger()
		bank.status = status
		f := newFlow(t, db, bank)
		first, err := f.Create(testCtx(t), purchase(t, "k"))
		if err != nil {
			t.Fatal(err)
		}
		// What becomes of the payment later changes nothing about the answer.
		news := charge(t, "k", "refunded")
		news.Metadata.PaymentID = paymentIn(t, first).ID
		if _, err := apply(t, db, f, news); err != nil {
			t.Fatal(err)
		}
		if did, err := f.Compact(testCtx(t), key(t, db, "k")); err != nil || !did {
			t.Fatalf("%s: compacted %v, %v", status, did, err)
		}
		if row := key(t, db, "k"); row.Stored.Body != nil || row.Stored.Code != first.Stored.Code {
			t.Errorf("%s: the row holds %d %q; want the code and no body", status, row.Stored.Code, row.Stored.Body)
		}
		again, err := f.Create(testCtx(t), purchase(t, "k"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(payment.Answer{Stored: first.Stored, Replayed: true}, again); diff != "" {
			t.Errorf("%s: the replay differs (-first +replay):\n%s", status, diff)
		}
		if did, err := f.Compact(testCtx(t), key(t, db, "k")); err != nil || did {
			t.Errorf("%s: compacted twice: %v, %v", status, did, err)
		}
	}
}

func testWhatCannotBeMadeAgainIsKept(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	bank := newLedger()
	f := newFlow(t, db, bank)
	declined := purchase(t, "declined")
	declined.PaymentMethod = "tok_declined"
	if _, err := f.Create(testCtx(t), declined); err != nil {
		t.Fatal(err)
	}
	bank.around = func(_ context.Context, _ int, truth func() psp.Result) psp.Result {
		res := truth()
		news := *res.Charge
		news.Status = "refunded" // before the response: the answer says so, and only the row as it is now does too
		if _, err := apply(t, db, f, news); err != nil {
			t.Error(err)
		}
		return res
	}
	if _, err := f.Create(testCtx(t), purchase(t, "refunded")); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"declined", "refunded"} {
		before := key(t, db, k)
		if did, err := f.Compact(testCtx(t), before); err != nil || did {
			t.Errorf("%s: compacted %v, %v; want it left", k, did, err)
		}
		if after := key(t, db, k); string(after.Stored.Body) != string(before.Stored.Body) {
			t.Errorf("%s: the body changed to %q", k, after.Stored.Body)
		}
	}
}
