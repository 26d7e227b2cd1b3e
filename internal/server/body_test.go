package server

import (
	"errors"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	paymentsv1 "chargeonce/api/payments/v1"
)

// FuzzDecodeBody: any bytes are either one request, and then the same one that protobuf's own reader sees, with the fingerprint of
// its plainest form; or a *problem that shows nothing like a card number.
func FuzzDecodeBody(f *testing.F) {
	for _, s := range []string{
		`{"order_id":"o","amount":"100","currency":"EUR","payment_method":"tok_visa"}`,
		`{"amount":1e2}`, `{"amount":1,"amount":1}`, `{"orderId":"a","order_id":"b"}`, `{"x":{"y":[1,{}]}}`, `[]`, `null`, `{}{}`,
		`{"4242424242424242":1}`, "{\"description\":\"\xff\"}", `{"amount":null}`, ``,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var got, want paymentsv1.CreatePaymentRequest
		err := decodeBody(body, &got)
		if err != nil {
			var p *problem
			if !errors.As(err, &p) || p.reason != paymentsv1.Reason_REQUEST_INVALID {
				t.Fatalf("%q: %v", body, err)
			}
			text, err := p.body()
			if err != nil || looksLikeCard.Match(text) {
				t.Fatalf("%q: told %s, %v", body, text, err)
			}
			return
		}
		if err := protojson.Unmarshal(body, &want); err != nil || !proto.Equal(&got, &want) {
			t.Fatalf("%q: read as %v, by protobuf as %v (%v)", body, &got, &want, err)
		}
		// What was read is strict by our own rules too, not by the library's alone.
		members, err := objectMembers(body)
		if found := faults(members, &got); err != nil || len(found) > 0 {
			t.Fatalf("%q: read, though it has faults: %v, %v", body, err, found)
		}
		again, err := marshal(&got)
		if err != nil || fingerprint(t, decoded(t, string(again))) != fingerprint(t, &got) {
			t.Fatalf("%q: another fingerprint than its plain form %s (%v)", body, again, err)
		}
	})
}

func FuzzDecodeQuery(f *testing.F) {
	for _, s := range []string{"page_size=1", "page_size=1&pageSize=2", "a=b", "%zz", "order_id=o;x", "page_token=%ff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, query string) {
		err := decodeQuery(query, &paymentsv1.ListPaymentsRequest{})
		var p *problem
		if err != nil && !errors.As(err, &p) {
			t.Fatalf("%q: %v", query, err)
		}
	})
}
