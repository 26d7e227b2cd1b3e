package gatewaysim_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	gatewaysim "chargeonce/gateway-sim"
)

// Every event of a charge carries the traceparent of the request that made it, whoever asks for the change and in whichever
// process; one that is not in W3C's form is dropped.
func TestEventsCarryTheTraceparentOfTheirCharge(t *testing.T) {
	t.Parallel()
	const another = "00-11111111111111111111111111111111-2222222222222222-01"
	path := t.TempDir() + "/psp.db"
	psp, c := start(t, gatewaysim.Config{Path: path, PendingAfter: time.Millisecond})
	send := func(c caller, method, path, body, key, traceparent string) response {
		return c.do(t.Context(), method, path, body, "Idempotency-Key: "+key, "traceparent: "+traceparent)
	}
	charge := func(key, token, traceparent string, status int) gatewaysim.Charge {
		return parse[gatewaysim.Charge](t, send(c, "POST", "/charges", chargeBody(token), key, traceparent).want(t, status))
	}
	paid := charge("paid", "tok_visa", traceparent, 201)
	charge("paid", "tok_visa", another, 200)
	charge("settled", "tok_pending", traceparent, 201)
	charge("bad", "tok_visa", "00-"+another, 201)
	c.charge("none").want(t, 201)
	if err := psp.Stop(); err != nil {
		t.Fatal(err)
	}

	rcv := newReceiver(t, gatewaysim.DemoWebhookSecret(), nil)
	psp, c = start(t, gatewaysim.Config{Path: path, WebhookURL: rcv.url})
	send(c, "POST", "/charges/"+paid.ID+"/refund", "", "x", another).want(t, 200)
	eventually(t, "all five are delivered", func() bool { return psp.Stats().Webhooks.Delivered == 5 })
	got := map[string]string{}
	for _, one := range rcv.got() {
		got[fmt.Sprintf("%s %s", one.charge.IdempotencyKey, one.kind)] = one.traceparent
	}
	want := map[string]string{
		"paid charge.succeeded": traceparent, "paid charge.refunded": traceparent, "settled charge.succeeded": traceparent,
		"bad charge.succeeded": "", "none charge.succeeded": "",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("traceparents (-want +got):\n%s", diff)
	}
}
