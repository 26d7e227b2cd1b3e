package gatewaysim_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	gatewaysim "chargeonce/gateway-sim"
)

func TestStats(t *testing.T) {
	t.Parallel()
	psp, c := start(t, gatewaysim.Config{})
	c.do(t.Context(), "POST", "/charges", chargeBody("tok_visa"), "Idempotency-Key: k", "Grpc-Timeout: 1500m").want(t, 201)
	c.charge("k").want(t, 200)
	c.charge("d", "tok_declined").want(t, 402)
	c.lookUp("k").want(t, 200)
	setFaults(t, psp, rules(gatewaysim.Rule{Fault: gatewaysim.DropConnection, Count: 1}))
	noAnswer(t, c.charge("dropped"))

	// The server closes a dropped connection, and counts it, a moment after the caller has noticed.
	var got gatewaysim.Stats
	eventually(t, "the drop is counted", func() bool {
		got = parse[gatewaysim.Stats](t, c.get("/admin/stats").want(t, 200))
		return got.Requests["POST /charges"]["dropped"] == 1 && got.OpenConnections == 1
	})
	want := gatewaysim.Stats{
		Requests: map[string]map[string]int64{
			"POST /charges": {"201": 1, "200": 1, "402": 1, "dropped": 1},
			"GET /charges":  {"200": 1},
		},
		Keys: map[string]gatewaysim.KeyStats{
			"k": {Posts: 2, Charges: 1}, "d": {Posts: 1}, "dropped": {Posts: 1},
		},
		Charges: 1, GrpcTimeouts: 1, LastGrpcTimeout: "1500m", ConnectionsOpened: 2, OpenConnections: 1, MaxInFlight: 1,
		Webhooks: gatewaysim.WebhookStats{Events: 1},
		Rules:    []gatewaysim.RuleStats{{Fault: gatewaysim.DropConnection, Matched: 1, Hits: 1}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	one := parse[gatewaysim.Stats](t, c.get("/admin/stats?key=k").want(t, 200)).Keys
	if diff := cmp.Diff(map[string]gatewaysim.KeyStats{"k": {Posts: 2, Charges: 1}}, one); diff != "" {
		t.Errorf("one key (-want +got):\n%s", diff)
	}

	c.do(t.Context(), "DELETE", "/admin/stats", "").want(t, 200)
	got = parse[gatewaysim.Stats](t, c.get("/admin/stats").want(t, 200))
	want = gatewaysim.Stats{Requests: map[string]map[string]int64{}, OpenConnections: 1, Rules: want.Rules}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("after the reset (-want +got):\n%s", diff)
	}
}

func TestInFlight(t *testing.T) {
	t.Parallel()
	psp, c := start(t, gatewaysim.Config{})
	setFaults(t, psp, rules(gatewaysim.Rule{Fault: gatewaysim.Hang}))
	ctx, hangUp := context.WithCancel(t.Context())
	var hung []<-chan response
	for i := range 5 {
		hung = append(hung, c.startCharge(ctx, fmt.Sprintf("k%d", i)))
	}
	awaitHung(t, psp, 5)
	hangUp()
	for _, one := range hung {
		noAnswer(t, <-one)
	}
	eventually(t, "none is in flight", func() bool { return psp.Stats().InFlight == 0 })
	if got := psp.Stats(); got.MaxInFlight != 5 || got.Hung != 0 || got.Requests["POST /charges"]["hung"] != 5 {
		t.Errorf("most in flight %d, hung now %d, requests %v", got.MaxInFlight, got.Hung, got.Requests)
	}
}

func TestRequestsAreLoggedInOrder(t *testing.T) {
	t.Parallel()
	psp, c := start(t, gatewaysim.Config{})
	began := time.Now()
	c.do(t.Context(), "POST", "/charges", chargeBody("tok_visa"), "Idempotency-Key: k", "Grpc-Timeout: 2S", "traceparent: "+traceparent).want(t, 201)
	c.lookUp("k").want(t, 200)
	eventually(t, "both have ended", func() bool { return psp.Stats().InFlight == 0 })
	c.get("/admin/requests").want(t, 200)
	got := psp.Requests()
	want := []gatewaysim.Request{
		{Method: "POST", Path: "/charges", IdempotencyKey: "k", GrpcTimeout: "2S", Traceparent: traceparent, Outcome: "201"},
		{Method: "GET", Path: "/charges", IdempotencyKey: "k", Outcome: "200"},
	}
	ignore := cmp.Options{cmpopts.IgnoreFields(gatewaysim.Request{}, "Received", "Duration"), cmpopts.IgnoreUnexported(gatewaysim.Request{})}
	if diff := cmp.Diff(want, got, ignore); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	if got[0].Received.Before(began) || got[1].Received.Before(got[0].Received) || got[0].Duration <= 0 {
		t.Errorf("received %v and %v, after %v; took %v", got[0].Received, got[1].Received, began, time.Duration(got[0].Duration))
	}
}

func TestLedgerIsStreamed(t *testing.T) {
	t.Parallel()
	psp, c := start(t, gatewaysim.Config{})
	for i := range 3 {
		c.charge(fmt.Sprintf("k%d", i)).want(t, 201)
	}
	var got []gatewaysim.Charge
	for line := range strings.Lines(c.get("/admin/ledger").want(t, 200).body) {
		got = append(got, parse[gatewaysim.Charge](t, response{body: line}))
	}
	if diff := cmp.Diff(ledger(t, psp), got); diff != "" || len(got) != 3 {
		t.Errorf("%d charges (-want +got):\n%s", len(got), diff)
	}
}

func TestHealthNeedsNoKey(t *testing.T) {
	t.Parallel()
	psp, c := start(t, gatewaysim.Config{})
	setFaults(t, psp, rules(gatewaysim.Rule{Fault: gatewaysim.Hang}))
	req, err := http.NewRequestWithContext(t.Context(), "GET", psp.URL+"/healthz", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("status %d, error %v", resp.StatusCode, err)
	}
}

func TestProfilesAreServed(t *testing.T) {
	t.Parallel()
	_, c := start(t, gatewaysim.Config{})
	if got := c.get("/debug/pprof/goroutine?debug=1").want(t, 200).body; !strings.Contains(got, "goroutine profile:") {
		t.Errorf("the profile is %q", got)
	}
	c.get("/debug/pprof/cmdline").want(t, 404) // it would show secrets that were given as flags
}

// A full file answers 500 and holds nothing of what it could not take; what it holds can still be read.
func TestFullFile(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/psp.db"
	psp, c := start(t, gatewaysim.Config{Path: path, MaxFileSize: 256 << 10})
	charged := map[string]string{}
	var refused []string
	for i := 0; len(refused) < 3; i++ {
		key := fmt.Sprintf("k%d", i)
		switch r := c.charge(key); r.status {
		case 201:
			charged[key] = parse[gatewaysim.Charge](t, r).ID
		case 500:
			refused = append(refused, key)
		default:
			t.Fatalf("answer %d %s (error %v)", r.status, r.body, r.err)
		}
	}
	check := func(psp *gatewaysim.Running, c caller) {
		t.Helper()
		if got := len(ledger(t, psp)); got != len(charged) {
			t.Errorf("%d charges in the ledger, %d were answered", got, len(charged))
		}
		for key, id := range charged {
			if got := parse[lookup](t, c.lookUp(key).want(t, 200)).Charge.ID; got != id {
				t.Fatalf("key %s is charged as %s, was answered %s", key, got, id)
			}
		}
		for _, key := range refused {
			c.lookUp(key).want(t, 404)
		}
	}
	check(psp, c)
	if err := psp.Stop(); err != nil {
		t.Fatal(err)
	}
	psp, c = start(t, gatewaysim.Config{Path: path})
	check(psp, c)
	c.charge(refused[0]).want(t, 201)
}
