package server_test

import (
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	paymentsv1 "chargeonce/api/payments/v1"
	"chargeonce/internal/server"
)

var tooMany = tableRow{reason: "OVERLOADED", code: codes.ResourceExhausted, http: 429, nextAction: retrySameKey}

func TestCase23RequestsBeyondTheCapAreRefusedOverBothFacesTogether(t *testing.T) {
	t.Parallel()
	events := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	e := newEnv(t, options{server: server.Config{MaxInFlight: 2, Webhook: events}})
	e.until("ready", func() bool { return e.health() == healthpb.HealthCheckResponse_SERVING })
	e.hangingPSP()
	working := make(chan outcome, 2)
	for _, f := range faces { // one slot each
		go func() {
			working <- e.send(f, sending{keys: []string{unique("works")}, timeout: 20 * time.Second, message: purchase(unique("o"))})
		}()
	}
	e.until("both are at the PSP", func() bool { return e.sim.Stats().Hung == 2 })

	for _, f := range faces {
		key := unique("more")
		_, _, got := e.create(f, key, purchase(unique("o")))
		got.check(t, f, tooMany)
		if row := e.keyRow(key); row != "none" {
			t.Errorf("%s: the key's row: %s, want none", f, row)
		}
		e.send(f, sending{message: &paymentsv1.ListPaymentsRequest{}}).check(t, f, tooMany)
		e.send(f, sending{apiKey: "none", message: &paymentsv1.ListPaymentsRequest{}}).check(t, f, tooMany) // it is not even asked who that is
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200} {
		if resp, _ := e.get(path, nil); resp.StatusCode != want {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
	if resp, _ := e.do(http.MethodPost, "/webhooks/psp", nil, nil); resp.StatusCode != http.StatusNoContent {
		t.Errorf("an event: %s", resp.Status)
	}
	if got := e.health(); got != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("gRPC health: %s", got)
	}

	if err := e.sim.ClearFaults(); err != nil { // which answers the two
		t.Fatal(err)
	}
	<-working
	<-working
	e.until("there is room again", func() bool {
		return e.send(overREST, sending{message: &paymentsv1.ListPaymentsRequest{}}).HTTP == http.StatusOK
	})
}

// A client that hangs up has not made the work less.
func TestAPurchaseKeepsItsSlotWhenItsClientLeaves(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{server: server.Config{MaxInFlight: 1}})
	for _, f := range faces {
		e.hangingPSP()
		key := unique("left")
		e.leaveDuringCharge(f, key, purchase(unique("o")))
		e.send(f, sending{message: &paymentsv1.ListPaymentsRequest{}}).check(t, f, tooMany)
		if err := e.sim.ClearFaults(); err != nil { // which answers it
			t.Fatal(err)
		}
		e.until("the purchase has ended", func() bool { return e.keyRow(key) == "done" })
		e.until("there is room again", func() bool {
			return e.send(f, sending{message: &paymentsv1.ListPaymentsRequest{}}).Reason == ""
		})
	}
}

func TestCase23AnAPIKeyOverItsRateIsToldWhenToComeBack(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{server: server.Config{RateLimit: 0.01, RateBurst: 3}})
	for _, f := range faces {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			e := e.in(t)
			e.apiKey = e.newAPIKey(e.user)
			for range 3 {
				if got := e.send(f, sending{message: &paymentsv1.ListPaymentsRequest{}}); got.Reason != "" {
					t.Errorf("within the burst: %+v", got)
				}
			}
			key := unique("fast")
			got := e.send(f, sending{keys: []string{key}, message: purchase("o")})
			if got.Reason != "OVERLOADED" || got.NextAction != retrySameKey || got.RetryAfter < 60*time.Second || got.RetryAfter > 110*time.Second {
				t.Errorf("beyond the burst: %+v", got)
			}
			e.untouched(key)
			e.apiKey = e.newAPIKey(e.user)
			if got := e.send(f, sending{message: &paymentsv1.ListPaymentsRequest{}}); got.Reason != "" {
				t.Errorf("the user's other key: %+v", got)
			}
		})
	}
}
