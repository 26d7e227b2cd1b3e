package gatewaysim_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	gatewaysim "chargeonce/gateway-sim"
)

// step is a request and the answer that CONTRACT.md promises to it.
type step struct {
	method, path, body string
	headers            []string
	status             int
	want               any // what the body must parse to, a gatewaysim.Charge, Error or lookup; nil: not looked at
}

func post(key, token string, status int, want any) step {
	return step{"POST", "/charges", chargeBody(token), []string{"Idempotency-Key: " + key}, status, want}
}

func look(key string, status int, want any) step {
	return step{method: "GET", path: "/charges?idempotency_key=" + key, status: status, want: want}
}

func cancelStep(key string, want lookup) step {
	return step{method: "POST", path: "/charges/cancel", body: fmt.Sprintf(`{"idempotency_key":%q}`, key), status: 200, want: want}
}

func chargeOf(key, token, status, failureCode string) gatewaysim.Charge {
	return gatewaysim.Charge{
		Object: "charge", IdempotencyKey: key, Amount: 1999, Currency: "EUR", Status: status, PaymentMethod: token,
		Description: "a book", Metadata: map[string]string{"user_id": "42", "order_id": "o-1"}, FailureCode: failureCode,
	}
}

func refusalOf(key, kind, code string) gatewaysim.Error {
	return gatewaysim.Error{Type: kind, Code: code, IdempotencyKey: key}
}

func TestContract(t *testing.T) {
	t.Parallel()
	visa := chargeOf("k", "tok_visa", "succeeded", "")
	pending := chargeOf("k", "tok_pending", "pending", "")
	declined := refusalOf("k", "card_declined", "do_not_honor")
	rejected := refusalOf("k", "charge_rejected", "blocked")
	mismatch := refusalOf("k", "idempotency_mismatch", "")
	gone := refusalOf("k", "key_canceled", "")
	invalid := refusalOf("", "invalid_request", "")
	notFound := refusalOf("", "charge_not_found", "")
	badBody := func(body string) step {
		return step{"POST", "/charges", body, []string{"Idempotency-Key: k"}, 400, invalid}
	}
	changed := func(old, new string) step {
		return step{"POST", "/charges", strings.Replace(chargeBody("tok_visa"), old, new, 1), []string{"Idempotency-Key: k"}, 422, mismatch}
	}
	for name, steps := range map[string][]step{
		"a new key is charged": {post("k", "tok_visa", 201, visa)},
		"a key that was charged answers the same charge": {
			post("k", "tok_visa", 201, visa), post("k", "tok_visa", 200, visa), look("k", 200, lookup{Result: "charged", Charge: &visa}),
		},
		"description and metadata are not compared": {
			post("k", "tok_visa", 201, visa),
			{"POST", "/charges", `{"amount":1999,"currency":"EUR","payment_method":"tok_visa"}`, []string{"Idempotency-Key: k"}, 200, visa},
		},
		"a decline is remembered": {
			post("k", "tok_declined", 402, declined), post("k", "tok_declined", 402, declined),
			look("k", 200, lookup{Result: "declined", Error: &declined}),
		},
		"insufficient funds": {post("k", "tok_insufficient_funds", 402, refusalOf("k", "card_declined", "insufficient_funds"))},
		"any other token":    {post("k", "tok_what", 402, refusalOf("k", "card_declined", "invalid_payment_method"))},
		"a rejection is remembered": {
			post("k", "tok_rejected", 422, rejected), post("k", "tok_rejected", 422, rejected),
			look("k", 200, lookup{Result: "rejected", Error: &rejected}),
		},
		"pending is accepted": {
			post("k", "tok_pending", 201, pending), post("k", "tok_pending", 200, pending),
			look("k", 200, lookup{Result: "charged", Charge: &pending}),
		},
		"another amount":          {post("k", "tok_visa", 201, visa), changed("1999", "2000")},
		"another currency":        {post("k", "tok_visa", 201, visa), changed("EUR", "USD")},
		"another payment method":  {post("k", "tok_visa", 201, visa), changed("tok_visa", "tok_declined")},
		"another after a decline": {post("k", "tok_declined", 402, declined), changed("tok_visa", "tok_visa")},

		"no key":          {{"POST", "/charges", chargeBody("tok_visa"), nil, 400, invalid}},
		"an empty key":    {{"POST", "/charges", chargeBody("tok_visa"), []string{"Idempotency-Key: "}, 400, invalid}},
		"a key too long":  {post(strings.Repeat("k", 256), "tok_visa", 400, invalid)},
		"a longest key":   {post(strings.Repeat("k", 255), "tok_visa", 201, nil)},
		"two keys":        {{"POST", "/charges", chargeBody("tok_visa"), []string{"Idempotency-Key: a", "Idempotency-Key: b"}, 400, invalid}},
		"a key in UTF-8":  {post("clé", "tok_visa", 400, invalid)},
		"no JSON":         {badBody(`amount=5`)},
		"zero amount":     {badBody(`{"amount":0,"currency":"EUR","payment_method":"tok_visa"}`)},
		"negative amount": {badBody(`{"amount":-1,"currency":"EUR","payment_method":"tok_visa"}`)},
		"amount in text":  {badBody(`{"amount":"5","currency":"EUR","payment_method":"tok_visa"}`)},
		"a broken amount": {badBody(`{"amount":5.5,"currency":"EUR","payment_method":"tok_visa"}`)},
		"a huge amount":   {badBody(`{"amount":9223372036854775808,"currency":"EUR","payment_method":"tok_visa"}`)},
		"no currency":     {badBody(`{"amount":5,"currency":"euro","payment_method":"tok_visa"}`)},
		"no method":       {badBody(`{"amount":5,"currency":"EUR"}`)},
		"17 metadata": {badBody(`{"amount":5,"currency":"EUR","payment_method":"tok_visa","metadata":{` +
			strings.TrimSuffix(manyMembers(17), ",") + `}}`)},
		"a body too long":           {badBody(`{"description":"` + strings.Repeat("x", 64<<10) + `"}`)},
		"an unknown member":         {{"POST", "/charges", `{"amount":1999,"currency":"EUR","payment_method":"tok_visa","x":1}`, []string{"Idempotency-Key: k"}, 201, nil}},
		"a bad request leaves none": {badBody(`{}`), look("k", 404, refusalOf("k", "key_not_found", ""))},

		"a wrong API key": {
			{"POST", "/charges", chargeBody("tok_visa"), []string{"Authorization: Bearer other", "Idempotency-Key: k"}, 401, refusalOf("", "unauthorized", "")},
		},
		"an unknown key": {look("k", 404, refusalOf("k", "key_not_found", ""))},
		"an unknown charge": {
			{method: "GET", path: "/charges/ch_nothing", status: 404, want: notFound},
			{method: "POST", path: "/charges/ch_nothing/refund", status: 404, want: notFound},
		},
		"an unknown route": {{method: "GET", path: "/nothing", status: 404, want: refusalOf("", "not_found", "")}},
		"another method":   {{method: "PUT", path: "/charges", status: 404, want: refusalOf("", "not_found", "")}},

		"a cancelled key is closed for good": {
			cancelStep("k", lookup{Result: "canceled"}), cancelStep("k", lookup{Result: "canceled"}),
			post("k", "tok_visa", 410, gone), look("k", 200, lookup{Result: "canceled"}),
		},
		"a cancel leaves a charge alone": {
			post("k", "tok_visa", 201, visa), cancelStep("k", lookup{Result: "charged", Charge: &visa}), post("k", "tok_visa", 200, visa),
		},
		"a cancel leaves a decline alone": {
			post("k", "tok_declined", 402, declined), cancelStep("k", lookup{Result: "declined", Error: &declined}),
		},
		"a cancel leaves a rejection alone": {
			post("k", "tok_rejected", 422, rejected), cancelStep("k", lookup{Result: "rejected", Error: &rejected}),
		},
		"a cancel without a key": {{method: "POST", path: "/charges/cancel", body: `{}`, status: 400, want: invalid}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, c := start(t, gatewaysim.Config{PendingAfter: time.Hour})
			for i, s := range steps {
				if strings.Contains(strings.Join(s.headers, ""), "Authorization") {
					c := c
					c.http = &http.Client{Transport: replaceAuthorization{c.http.Transport}, Timeout: patience}
					s.check(t, c, i)
					continue
				}
				s.check(t, c, i)
			}
		})
	}
}

// replaceAuthorization lets a request's last Authorization stand alone.
type replaceAuthorization struct{ next http.RoundTripper }

func (r replaceAuthorization) RoundTrip(req *http.Request) (*http.Response, error) {
	all := req.Header.Values("Authorization")
	req.Header.Set("Authorization", all[len(all)-1])
	return r.next.RoundTrip(req)
}

func manyMembers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"m%d":"x",`, i)
	}
	return b.String()
}

// varying are the fields that no test can foretell.
var varying = cmp.Options{
	cmpopts.IgnoreFields(gatewaysim.Charge{}, "ID", "CreatedAt", "UpdatedAt"),
	cmpopts.IgnoreFields(gatewaysim.Error{}, "Message"),
}

func (s step) check(t *testing.T, c caller, i int) {
	t.Helper()
	r := c.do(t.Context(), s.method, s.path, s.body, s.headers...)
	if r.err != nil || r.status != s.status {
		t.Fatalf("step %d: answer %d %s (error %v), want %d", i, r.status, r.body, r.err, s.status)
	}
	if got := r.header.Get("Content-Type"); got != "application/json" {
		t.Errorf("step %d: Content-Type %q", i, got)
	}
	var diff string
	switch want := s.want.(type) {
	case gatewaysim.Charge:
		diff = cmp.Diff(want, parse[gatewaysim.Charge](t, r), varying)
	case gatewaysim.Error:
		diff = cmp.Diff(want, errorOf(t, r), varying)
	case lookup:
		diff = cmp.Diff(want, parse[lookup](t, r), varying)
	}
	if diff != "" {
		t.Errorf("step %d, %s %s (-want +got):\n%s", i, s.method, s.path, diff)
	}
}

func TestRefund(t *testing.T) {
	t.Parallel()
	psp, c := start(t, gatewaysim.Config{PendingAfter: time.Hour})
	paid := parse[gatewaysim.Charge](t, c.charge("paid").want(t, 201))
	waiting := parse[gatewaysim.Charge](t, c.charge("waiting", "tok_pending").want(t, 201))
	voided := parse[gatewaysim.Charge](t, c.charge("voided").want(t, 201))
	void := func(id string) response { return c.do(t.Context(), "POST", "/admin/charges/"+id+"/cancel", "") }
	refund := func(id string) response { return c.do(t.Context(), "POST", "/charges/"+id+"/refund", "") }

	for range 2 {
		if got := parse[gatewaysim.Charge](t, refund(paid.ID).want(t, 200)).Status; got != "refunded" {
			t.Errorf("a refunded charge is %s", got)
		}
		if got := parse[gatewaysim.Charge](t, void(voided.ID).want(t, 200)).Status; got != "canceled" {
			t.Errorf("a voided charge is %s", got)
		}
	}
	if got := errorOf(t, refund(waiting.ID).want(t, 409)).Type; got != "not_refundable" {
		t.Errorf("refund of a pending charge: %s", got)
	}
	if got := errorOf(t, refund(voided.ID).want(t, 409)).Type; got != "not_refundable" {
		t.Errorf("refund of a voided charge: %s", got)
	}
	if got := errorOf(t, void(paid.ID).want(t, 409)).Type; got != "not_cancelable" {
		t.Errorf("voiding of a refunded charge: %s", got)
	}
	void("ch_nothing").want(t, 404)

	// The key's answer is the charge as it is now.
	if got := parse[gatewaysim.Charge](t, c.charge("paid").want(t, 200)).Status; got != "refunded" {
		t.Errorf("the refunded charge's key answers %s", got)
	}
	if got := parse[lookup](t, c.lookUp("voided").want(t, 200)).Charge.Status; got != "canceled" {
		t.Errorf("the voided charge's key answers %s", got)
	}
	var statuses []string
	for _, charge := range ledger(t, psp) {
		statuses = append(statuses, charge.Status)
	}
	if diff := cmp.Diff([]string{"refunded", "pending", "canceled"}, statuses); diff != "" {
		t.Error(diff)
	}
}

func TestPendingSettles(t *testing.T) {
	t.Parallel()
	_, c := start(t, gatewaysim.Config{PendingAfter: time.Millisecond})
	c.charge("good", "tok_pending").want(t, 201)
	c.charge("bad", "tok_pending_fails").want(t, 201)
	var good, bad gatewaysim.Charge
	eventually(t, "both have settled", func() bool {
		good = *parse[lookup](t, c.lookUp("good").want(t, 200)).Charge
		bad = *parse[lookup](t, c.lookUp("bad").want(t, 200)).Charge
		return good.Status != "pending" && bad.Status != "pending"
	})
	if good.Status != "succeeded" || good.FailureCode != "" || bad.Status != "failed" || bad.FailureCode != "expired" {
		t.Errorf("settled to %s %q and %s %q", good.Status, good.FailureCode, bad.Status, bad.FailureCode)
	}
	if !good.UpdatedAt.After(good.CreatedAt.Time) {
		t.Errorf("settled at %v, created at %v", good.UpdatedAt, good.CreatedAt)
	}
}

func TestVoidedPendingChargeStaysVoided(t *testing.T) {
	t.Parallel()
	_, c := start(t, gatewaysim.Config{PendingAfter: 20 * time.Millisecond})
	first := parse[gatewaysim.Charge](t, c.charge("first", "tok_pending").want(t, 201))
	c.do(t.Context(), "POST", "/admin/charges/"+first.ID+"/cancel", "").want(t, 200)
	// The second is due after the first: once it has settled, the first one's time is over too.
	c.charge("second", "tok_pending").want(t, 201)
	eventually(t, "the second settles", func() bool {
		return parse[lookup](t, c.lookUp("second").want(t, 200)).Charge.Status == "succeeded"
	})
	if got := parse[lookup](t, c.lookUp("first").want(t, 200)).Charge.Status; got != "canceled" {
		t.Errorf("the voided charge is %s", got)
	}
}

func TestForgottenKeyIsNeverSeen(t *testing.T) {
	t.Parallel()
	psp, c := start(t, gatewaysim.Config{KeyRetention: time.Nanosecond})
	c.charge("k").want(t, 201)
	c.lookUp("k").want(t, 404)
	c.charge("k").want(t, 201)
	if got := len(ledger(t, psp)); got != 2 {
		t.Errorf("%d charges, want 2", got)
	}
}
