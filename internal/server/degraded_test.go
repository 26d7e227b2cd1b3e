package server_test

import (
	"net/http"
	"testing"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	paymentsv1 "chargeonce/api/payments/v1"
	"chargeonce/internal/mysql"
	"chargeonce/internal/psp"
)

var unavailable = tableRow{reason: "UNAVAILABLE", code: codes.Unavailable, http: 503, nextAction: retrySameKey}

// The connections to MySQL are cut under a server that works, and no new one comes through; then they do again. Nobody touches
// the server.
func TestADatabaseThatGoesAndComesBackNeedsNobodysHand(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	proxy := mysql.NewFaultProxy(t, db.DSN)
	pool, err := mysql.Open(proxy.DSN, mysql.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e := newEnv(t, options{db: db, pool: pool})
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	e.until("ready", func() bool { return e.health() == healthpb.HealthCheckResponse_SERVING })
	if got := e.send(overREST, sending{keys: []string{unique("before")}, message: purchase(unique("o"))}); got.HTTP != http.StatusCreated {
		t.Fatalf("before: %+v", got)
	}

	proxy.Cut()
	keys, orders := map[face]string{}, map[face]*paymentsv1.CreatePaymentRequest{}
	for _, f := range faces {
		orders[f] = purchase(unique("o"))
		_, key, got := e.create(f, "", orders[f])
		got.check(t, f, unavailable)
		keys[f] = key
		e.send(f, sending{message: &paymentsv1.ListPaymentsRequest{}}).check(t, f, unavailable)
	}
	e.until("not ready over gRPC", func() bool { return e.health() == healthpb.HealthCheckResponse_NOT_SERVING })
	for path, want := range map[string]int{"/readyz": http.StatusServiceUnavailable, "/healthz": http.StatusOK} {
		if resp, _ := e.get(path, nil); resp.StatusCode != want {
			t.Errorf("%s: %s", path, resp.Status)
		}
		if status, _ := e.adminStatus(http.MethodGet, path, nil); status != want {
			t.Errorf("admin %s: %d", path, status)
		}
	}

	proxy.Mend()
	e.until("ready again", func() bool { return e.health() == healthpb.HealthCheckResponse_SERVING })
	for _, f := range faces {
		if got := e.send(f, sending{keys: []string{keys[f]}, message: orders[f]}); got.Payment == nil {
			t.Errorf("%s: the same key again: %+v", f, got)
		}
		if n := e.charges(orders[f].GetOrderId()); n != 1 {
			t.Errorf("%s: %d charges, want 1", f, n)
		}
	}
}

func TestWithoutItsPSPTheServerServesReadsAndReplaysAndIsReady(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	key, req := unique("before"), purchase(unique("o"))
	first := e.send(overREST, sending{keys: []string{key}, message: req})

	cut := newEnv(t, options{db: e.db, sim: e.sim, psp: psp.Config{BaseURL: "http://" + nobody(t), BreakerFailuresInRow: 1}})
	for _, f := range faces {
		for range 2 { // at the second, the breaker is open
			_, _, got := cut.create(f, "", purchase(unique("o")))
			if got.Reason != "PSP_UNAVAILABLE" || got.NextAction != retrySameKey || got.RetryAfter == 0 {
				t.Errorf("%s: a new purchase: %+v", f, got)
			}
		}
		if got := cut.send(f, sending{keys: []string{key}, message: req}); !got.Replayed || got.Payment.GetId() != first.Payment.GetId() {
			t.Errorf("%s: a replay: %+v", f, got)
		}
		if got := cut.send(f, sending{message: &paymentsv1.GetPaymentRequest{Id: first.Payment.GetId()}}); got.Payment == nil {
			t.Errorf("%s: a read: %+v", f, got)
		}
		if got := cut.send(f, sending{message: &paymentsv1.ListPaymentsRequest{}}); got.Reason != "" {
			t.Errorf("%s: a list: %+v", f, got)
		}
	}
	if resp, _ := cut.get("/readyz", nil); resp.StatusCode != http.StatusOK {
		t.Errorf("/readyz: %s: taking every server out would end the reads too", resp.Status)
	}
}
