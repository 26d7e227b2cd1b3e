package server_test

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	paymentsv1 "chargeonce/api/payments/v1"
)

func TestAReplayOutlivesTheServerThatGaveIt(t *testing.T) {
	t.Parallel()
	first := newEnv(t, options{})
	type answered struct {
		key  string
		req  *paymentsv1.CreatePaymentRequest
		want outcome
		http int
	}
	var all []answered
	for _, f := range faces {
		for _, tt := range finals {
			a := answered{key: unique("kept"), req: named(unique("o"), tt.request.GetPaymentMethod()), http: tt.http}
			a.want = first.send(f, sending{keys: []string{a.key}, message: a.req})
			all = append(all, a)
		}
	}
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	second := newEnv(t, options{db: first.db, sim: first.sim})
	for _, a := range all {
		for _, f := range faces {
			got := second.send(f, sending{keys: []string{a.key}, message: a.req})
			if diff := cmp.Diff(a.want.learned(), got.learned(), protocmp.Transform()); diff != "" || !got.Replayed {
				t.Errorf("%s, %s, replayed %t (-first +replay):\n%s", f, a.req.GetPaymentMethod(), got.Replayed, diff)
			}
			if f == overREST && (got.HTTP != a.http || a.want.Body != "" && got.Body != a.want.Body) {
				t.Errorf("replayed as %d %s, want %d %s", got.HTTP, got.Body, a.http, a.want.Body)
			}
		}
	}
}

// What can't be stored whole is refused before the key is claimed. What can be stored is, to the last byte.
func TestTheLongestRequestIsKeptWholeAndALongerOneIsNotBegun(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	longest := func(first string) *paymentsv1.CreatePaymentRequest {
		return &paymentsv1.CreatePaymentRequest{OrderId: first + strings.Repeat("o", 63), Amount: math.MaxInt64, Currency: "EUR",
			PaymentMethod: "tok_visa", Description: strings.Repeat("đ", 255)}
	}
	for i, f := range faces {
		key, req := strings.Repeat("k", 254)+[]string{"1", "2"}[i], longest(string(f[0]))
		first := e.send(f, sending{keys: []string{key}, message: req})
		again := e.send(overREST, sending{keys: []string{key}, message: req})
		if first.Payment == nil || first.Payment.GetOrderId() != req.GetOrderId() || first.Payment.GetAmount() != req.GetAmount() {
			t.Errorf("%s: %+v", f, first)
		}
		if diff := cmp.Diff(first.learned(), again.learned(), protocmp.Transform()); diff != "" || !again.Replayed {
			t.Errorf("%s (-first +replay):\n%s", f, diff)
		}
	}
	for name, longer := range map[string]func(*paymentsv1.CreatePaymentRequest){
		"order id":       func(r *paymentsv1.CreatePaymentRequest) { r.OrderId += "o" },
		"payment method": func(r *paymentsv1.CreatePaymentRequest) { r.PaymentMethod = "tok_" + strings.Repeat("v", 125) },
		"description":    func(r *paymentsv1.CreatePaymentRequest) { r.Description += "đ" },
		"message":        func(r *paymentsv1.CreatePaymentRequest) { r.Description = strings.Repeat("x", 60<<10) },
	} {
		for _, f := range faces {
			key, req := unique("longer"), longest("x")
			longer(req)
			got := e.send(f, sending{keys: []string{key}, message: req})
			if got.Reason != "REQUEST_INVALID" || e.keyRow(key) != "none" {
				t.Errorf("%s, %s: %+v, the key's row: %s", f, name, got, e.keyRow(key))
			}
		}
	}
}
