package gatewaysim_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	gatewaysim "chargeonce/gateway-sim"
)

// secretOf makes a webhook secret that is as long as the scheme wants.
func secretOf(name string) string {
	return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(name, 32)[:32]))
}

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// event is a line of GET /admin/events.
type event struct {
	ID       string    `json:"id"`
	Type     string    `json:"type"`
	State    string    `json:"state"`
	Attempts int       `json:"attempts"`
	NextAt   time.Time `json:"next_at"`
}

func (c caller) events(t *testing.T) []event {
	t.Helper()
	var all []event
	for line := range strings.Lines(c.get("/admin/events").want(t, 200).body) {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// awaitStates waits until the events are in these states, in order of creation.
func (c caller) awaitStates(t *testing.T, want ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("the events are %v", want), func() bool {
		var got []string
		for _, e := range c.events(t) {
			got = append(got, e.State)
		}
		return slices.Equal(got, want)
	})
}

func TestWebhookIsSignedAndShowsTheCharge(t *testing.T) {
	t.Parallel()
	rcv := newReceiver(t, secretOf("a"), nil)
	_, c := start(t, gatewaysim.Config{WebhookURL: rcv.url, WebhookSecrets: []string{secretOf("a")}})
	charge := parse[gatewaysim.Charge](t, c.do(t.Context(), "POST", "/charges", chargeBody("tok_visa"),
		"Idempotency-Key: k", "traceparent: "+traceparent).want(t, 201))
	got := rcv.await(t, 1)[0]
	if !got.verified || got.kind != "charge.succeeded" || got.traceparent != traceparent {
		t.Errorf("verified %v, type %q, traceparent %q", got.verified, got.kind, got.traceparent)
	}
	if diff := cmp.Diff(charge, got.charge); diff != "" {
		t.Errorf("the event's charge (-answer +event):\n%s", diff)
	}
	c.awaitStates(t, "delivered")
	if id := c.events(t)[0].ID; id != got.id {
		t.Errorf("webhook-id %q, event %q", got.id, id)
	}
}

func TestEventsOfOneCharge(t *testing.T) {
	t.Parallel()
	rcv := newReceiver(t, gatewaysim.DemoWebhookSecret(), nil)
	_, c := start(t, gatewaysim.Config{WebhookURL: rcv.url, PendingAfter: time.Millisecond})
	refunded := parse[gatewaysim.Charge](t, c.charge("refunded").want(t, 201))
	c.do(t.Context(), "POST", "/charges/"+refunded.ID+"/refund", "").want(t, 200)
	voided := parse[gatewaysim.Charge](t, c.charge("voided").want(t, 201))
	c.do(t.Context(), "POST", "/admin/charges/"+voided.ID+"/cancel", "").want(t, 200)
	c.charge("settled", "tok_pending").want(t, 201)
	c.charge("failed", "tok_pending_fails").want(t, 201)
	c.charge("declined", "tok_declined").want(t, 402)

	var got []string
	for _, one := range rcv.await(t, 6) {
		got = append(got, fmt.Sprintf("%s %s %s", one.charge.IdempotencyKey, one.kind, one.charge.Status))
	}
	slices.Sort(got)
	want := []string{
		"failed charge.failed failed",
		"refunded charge.refunded refunded", "refunded charge.succeeded succeeded",
		"settled charge.succeeded succeeded",
		"voided charge.canceled canceled", "voided charge.succeeded succeeded",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDeliveryIsRepeatedUntilTwoHundred(t *testing.T) {
	t.Parallel()
	var tries atomic.Int64
	answers := []int{500, 404, 302, 204}
	rcv := newReceiver(t, gatewaysim.DemoWebhookSecret(), func(received) int { return answers[min(int(tries.Add(1)), 4)-1] })
	_, c := start(t, gatewaysim.Config{WebhookURL: rcv.url, WebhookSpeedup: 1e6})
	c.charge("k").want(t, 201)
	c.awaitStates(t, "delivered")
	var got []int
	for _, one := range rcv.got() {
		got = append(got, one.answered)
		if !one.verified || one.id != rcv.got()[0].id || one.body != rcv.got()[0].body {
			t.Errorf("a delivery with id %q, verified %v, differs from the first", one.id, one.verified)
		}
	}
	if diff := cmp.Diff(answers, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if e := c.events(t)[0]; e.Attempts != 4 {
		t.Errorf("%d attempts, want 4", e.Attempts)
	}
}

func TestScheduleEnds(t *testing.T) {
	t.Parallel()
	rcv := newReceiver(t, gatewaysim.DemoWebhookSecret(), func(received) int { return 500 })
	_, c := start(t, gatewaysim.Config{WebhookURL: rcv.url, WebhookSpeedup: 1e9})
	c.charge("k").want(t, 201)
	c.awaitStates(t, "exhausted")
	if got := len(rcv.got()); got != 10 {
		t.Errorf("%d deliveries, want 10", got)
	}
}

func TestReceiverThatIsDown(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	psp, c := start(t, gatewaysim.Config{WebhookURL: server.URL, WebhookSchedule: []time.Duration{0, time.Hour}})
	c.charge("k").want(t, 201)
	eventually(t, "a delivery has failed", func() bool { return psp.Stats().Webhooks.Failed == 1 })
	eventually(t, "the next one waits for the schedule", func() bool {
		e := c.events(t)[0]
		wait := time.Until(e.NextAt)
		return e.State == "queued" && e.Attempts == 1 && wait > 50*time.Minute && wait < 67*time.Minute
	})

	rcv := newReceiver(t, gatewaysim.DemoWebhookSecret(), nil)
	c.do(t.Context(), "PUT", "/admin/webhooks", fmt.Sprintf(`{"url":%q}`, rcv.url)).want(t, 200)
	c.do(t.Context(), "POST", "/admin/deliver", `{}`).want(t, 200)
	if got := rcv.got(); len(got) != 1 || !got[0].verified {
		t.Errorf("forced deliveries: %+v", got)
	}
	c.awaitStates(t, "delivered")
}

func TestEventsWaitForAURL(t *testing.T) {
	t.Parallel()
	rcv := newReceiver(t, gatewaysim.DemoWebhookSecret(), nil)
	_, c := start(t, gatewaysim.Config{})
	c.charge("k").want(t, 201)
	c.do(t.Context(), "POST", "/admin/deliver", `{}`).want(t, 409)
	c.do(t.Context(), "PUT", "/admin/webhooks", `{"url":"localhost:80"}`).want(t, 400)
	c.do(t.Context(), "PUT", "/admin/webhooks", fmt.Sprintf(`{"url":%q}`, rcv.url)).want(t, 200)
	rcv.await(t, 1)
	c.awaitStates(t, "delivered")
}

func TestForcedDeliveryRepeatsTheEvent(t *testing.T) {
	t.Parallel()
	rcv := newReceiver(t, gatewaysim.DemoWebhookSecret(), nil)
	_, c := start(t, gatewaysim.Config{WebhookURL: rcv.url})
	c.charge("k").want(t, 201)
	c.awaitStates(t, "delivered")
	first := rcv.got()[0]
	c.do(t.Context(), "POST", "/admin/deliver", fmt.Sprintf(`{"event_id":%q}`, first.id)).want(t, 200)
	if got := rcv.got(); len(got) != 2 || got[1].id != first.id || got[1].body != first.body || !got[1].verified {
		t.Errorf("deliveries %+v", got)
	}
	c.do(t.Context(), "POST", "/admin/deliver", `{"event_id":"evt_nothing"}`).want(t, 404)
	c.do(t.Context(), "POST", "/admin/deliver", `{"event":"x"}`).want(t, 400)
}

func TestSeveralSecretsSign(t *testing.T) {
	t.Parallel()
	both := []string{secretOf("a"), secretOf("b")}
	for name, tt := range map[string]struct {
		signWith *int
		verifies map[string]bool
	}{
		"all":    {nil, map[string]bool{"a": true, "b": true}},
		"first":  {new(0), map[string]bool{"a": true, "b": false}},
		"second": {new(1), map[string]bool{"a": false, "b": true}},
	} {
		for secret, want := range tt.verifies {
			t.Run(name+" for a receiver of "+secret, func(t *testing.T) {
				t.Parallel()
				rcv := newReceiver(t, secretOf(secret), nil)
				psp, c := start(t, gatewaysim.Config{WebhookURL: rcv.url, WebhookSecrets: both})
				setFaults(t, psp, gatewaysim.Faults{Webhooks: gatewaysim.WebhookFaults{SignWith: tt.signWith}})
				c.charge("k").want(t, 201)
				if got := rcv.await(t, 1)[0].verified; got != want {
					t.Errorf("verified %v, want %v", got, want)
				}
			})
		}
	}
}

func TestBadSignatureIsTriedAgain(t *testing.T) {
	t.Parallel()
	rcv := newReceiver(t, gatewaysim.DemoWebhookSecret(), nil)
	psp, c := start(t, gatewaysim.Config{WebhookURL: rcv.url, WebhookSchedule: []time.Duration{0, time.Hour}})
	setFaults(t, psp, gatewaysim.Faults{Webhooks: gatewaysim.WebhookFaults{BadSignatureRate: 1}})
	c.charge("k").want(t, 201)
	if got := rcv.await(t, 1)[0]; got.verified || !strings.HasPrefix(got.header.Get("webhook-signature"), "v1,") {
		t.Errorf("verified %v, signature %q", got.verified, got.header.Get("webhook-signature"))
	}
	eventually(t, "it is written down", func() bool { return c.events(t)[0].Attempts == 1 })
	if err := psp.ClearFaults(); err != nil {
		t.Fatal(err)
	}
	c.do(t.Context(), "POST", "/admin/deliver", `{}`).want(t, 200)
	if got := rcv.got(); len(got) != 2 || !got[1].verified || got[1].id != got[0].id {
		t.Errorf("deliveries %+v", got)
	}
}

func TestEarlyWebhookLeadsTheAnswer(t *testing.T) {
	t.Parallel()
	var answered atomic.Bool
	rcv := newReceiver(t, gatewaysim.DemoWebhookSecret(), func(received) int {
		if answered.Load() {
			t.Error("the charge was answered before its webhook")
		}
		return 200
	})
	psp, c := start(t, gatewaysim.Config{WebhookURL: rcv.url})
	setFaults(t, psp, gatewaysim.Faults{Webhooks: gatewaysim.WebhookFaults{Early: true}})
	c.charge("k").want(t, 201)
	answered.Store(true)
	if got := len(rcv.got()); got != 1 {
		t.Errorf("%d deliveries when the charge is answered, want 1", got)
	}
	c.awaitStates(t, "delivered")
}

func TestEarlyWebhookThatFailsIsTriedAgain(t *testing.T) {
	t.Parallel()
	var tries atomic.Int64
	rcv := newReceiver(t, gatewaysim.DemoWebhookSecret(), func(received) int {
		if tries.Add(1) == 1 {
			return 503
		}
		return 200
	})
	psp, c := start(t, gatewaysim.Config{WebhookURL: rcv.url, WebhookSpeedup: 1e6})
	setFaults(t, psp, gatewaysim.Faults{Webhooks: gatewaysim.WebhookFaults{Early: true}})
	c.charge("k").want(t, 201)
	c.awaitStates(t, "delivered")
	if got := len(rcv.got()); got != 2 {
		t.Errorf("%d deliveries, want 2", got)
	}
}

func TestDelayedWebhookIsLate(t *testing.T) {
	t.Parallel()
	rcv := newReceiver(t, gatewaysim.DemoWebhookSecret(), nil)
	psp, c := start(t, gatewaysim.Config{WebhookURL: rcv.url})
	setFaults(t, psp, gatewaysim.Faults{Webhooks: gatewaysim.WebhookFaults{Delay: gatewaysim.Duration(time.Hour)}})
	charge := parse[gatewaysim.Charge](t, c.charge("late").want(t, 201))
	if late := c.events(t)[0].NextAt.Sub(charge.CreatedAt.Time); late < time.Hour || late > 61*time.Minute {
		t.Errorf("it is due %v after the charge", late)
	}
	if err := psp.ClearFaults(); err != nil {
		t.Fatal(err)
	}
	c.charge("on time").want(t, 201)
	rcv.await(t, 1)
	c.awaitStates(t, "queued", "delivered")
}

func TestRepeatedWebhook(t *testing.T) {
	t.Parallel()
	rcv := newReceiver(t, gatewaysim.DemoWebhookSecret(), nil)
	psp, c := start(t, gatewaysim.Config{WebhookURL: rcv.url})
	setFaults(t, psp, gatewaysim.Faults{Webhooks: gatewaysim.WebhookFaults{Repeat: 2}})
	c.charge("k").want(t, 201)
	all := rcv.await(t, 3)
	for _, one := range all {
		if one.id != all[0].id || one.body != all[0].body || !one.verified {
			t.Errorf("a repetition differs: %+v", one)
		}
	}
	eventually(t, "all are counted", func() bool { return psp.Stats().Webhooks.Delivered == 3 })
	want := gatewaysim.WebhookStats{Events: 1, Delivered: 3, Extra: 2}
	if diff := cmp.Diff(want, psp.Stats().Webhooks); diff != "" {
		t.Error(diff)
	}
}

func TestShuffledWebhooksArriveOutOfOrder(t *testing.T) {
	t.Parallel()
	rcv := newReceiver(t, gatewaysim.DemoWebhookSecret(), nil)
	psp, c := start(t, gatewaysim.Config{WebhookURL: rcv.url, WebhookConcurrency: 1})
	setFaults(t, psp, gatewaysim.Faults{Webhooks: gatewaysim.WebhookFaults{
		Delay: gatewaysim.Duration(time.Second / 2), Shuffle: gatewaysim.Duration(time.Second / 2)}})
	for i := range 20 {
		c.charge(fmt.Sprintf("k%d", i)).want(t, 201)
	}
	var ids []string
	for _, one := range rcv.await(t, 20) {
		ids = append(ids, one.id)
	}
	if slices.IsSorted(ids) {
		t.Error("20 events arrived in order")
	}
	slices.Sort(ids)
	if n := len(slices.Compact(ids)); n != 20 {
		t.Errorf("%d different events, want 20", n)
	}
}

func TestDroppedWebhookIsNeverSentUnlessForced(t *testing.T) {
	t.Parallel()
	rcv := newReceiver(t, gatewaysim.DemoWebhookSecret(), nil)
	psp, c := start(t, gatewaysim.Config{WebhookURL: rcv.url})
	setFaults(t, psp, gatewaysim.Faults{Webhooks: gatewaysim.WebhookFaults{DropRate: 1}})
	c.charge("lost").want(t, 201)
	if err := psp.ClearFaults(); err != nil {
		t.Fatal(err)
	}
	c.charge("sent").want(t, 201)
	c.awaitStates(t, "dropped", "delivered")
	c.do(t.Context(), "POST", "/admin/deliver", `{}`).want(t, 200)
	if got := rcv.got(); len(got) != 1 || got[0].charge.IdempotencyKey != "sent" {
		t.Errorf("deliveries %+v", got)
	}
	c.do(t.Context(), "POST", "/admin/deliver", fmt.Sprintf(`{"event_id":%q}`, c.events(t)[0].ID)).want(t, 200)
	if got := rcv.got(); len(got) != 2 || got[1].charge.IdempotencyKey != "lost" {
		t.Errorf("deliveries %+v", got)
	}
}

func TestWebhooksThatAreOffWait(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		off gatewaysim.WebhookFaults
		end func(*gatewaysim.Running) error
	}{
		"until cleared": {gatewaysim.WebhookFaults{Off: true, Early: true}, func(psp *gatewaysim.Running) error { return psp.ClearFaults() }},
		"until the window ends": {gatewaysim.WebhookFaults{Off: true, Window: gatewaysim.Window{For: gatewaysim.Duration(time.Second)}},
			func(*gatewaysim.Running) error { return nil }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rcv := newReceiver(t, gatewaysim.DemoWebhookSecret(), nil)
			psp, c := start(t, gatewaysim.Config{WebhookURL: rcv.url})
			setFaults(t, psp, gatewaysim.Faults{Webhooks: tt.off})
			c.charge("k").want(t, 201)
			if got := len(rcv.got()); got != 0 {
				t.Errorf("%d deliveries", got)
			}
			if err := tt.end(psp); err != nil {
				t.Fatal(err)
			}
			rcv.await(t, 1)
			c.awaitStates(t, "delivered")
		})
	}
}

func TestGracefulRestartDeliversWhatIsQueued(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/psp.db"
	psp, c := start(t, gatewaysim.Config{Path: path, PendingAfter: time.Hour})
	c.charge("paid").want(t, 201)
	c.charge("waiting", "tok_pending").want(t, 201)
	if err := psp.Stop(); err != nil {
		t.Fatal(err)
	}
	rcv := newReceiver(t, gatewaysim.DemoWebhookSecret(), nil)
	_, c = start(t, gatewaysim.Config{Path: path, WebhookURL: rcv.url})
	if got := rcv.await(t, 1)[0]; got.charge.IdempotencyKey != "paid" || !got.verified {
		t.Errorf("delivered %+v", got)
	}
	c.awaitStates(t, "delivered")
	if got := parse[lookup](t, c.lookUp("waiting").want(t, 200)).Charge.Status; got != "pending" {
		t.Errorf("the pending charge is %s", got)
	}
}
