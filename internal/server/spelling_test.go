package server_test

import (
	"net/http"
	"testing"

	paymentsv1 "chargeonce/api/payments/v1"
)

// Every spelling of a request is one request.
func TestCase05SpellingsOfARequestAreOneRequest(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	order := unique("o")
	key := unique("spelt")
	spellings := []string{
		`{"order_id":"` + order + `","amount":100,"currency":"EUR","payment_method":"tok_visa"}`,
		`{"payment_method":"tok_visa","currency":"EUR","amount":"100","order_id":"` + order + `"}`,
		`{"orderId":"` + order + `","amount":1e2,"currency":"EUR","paymentMethod":"tok_visa","description":""}`,
		"{ \"amount\" : 100.0 ,\n\t\"order_id\":\"" + order + "\",\"currency\":\"\\u0045UR\",\"payment_method\":\"tok_visa\",\"description\":null}",
	}
	var want outcome
	for i, body := range spellings {
		got := e.rest(http.MethodPost, "/payments", e.header(key), body)
		if i == 0 {
			want = got
		}
		if got.HTTP != 201 || got.Body != want.Body || got.Replayed != (i > 0) {
			t.Errorf("%s: %d %s", body, got.HTTP, got.Body)
		}
	}
	over := e.send(overGRPC, sending{keys: []string{key},
		message: &paymentsv1.CreatePaymentRequest{OrderId: order, Amount: 100, Currency: "EUR", PaymentMethod: "tok_visa"}})
	if !over.Replayed {
		t.Errorf("gRPC: %+v", over)
	}
}

func TestCase07QuotedAndBareFormsAreOneKey(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	key, req := unique("quoted"), purchase(unique("o"))
	for i, form := range []string{key, `"` + key + `"`, " " + key + " "} {
		for _, f := range faces {
			got := e.send(f, sending{keys: []string{form}, message: req})
			if got.Payment == nil || got.Replayed != (i > 0 || f == overREST) {
				t.Errorf("%s, %s: %+v", f, form, got)
			}
		}
	}
	if n := e.charges(req.GetOrderId()); n != 1 {
		t.Errorf("%d charges, want 1", n)
	}
}
