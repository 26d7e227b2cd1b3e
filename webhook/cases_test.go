package webhook_test

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chargeonce/internal/mysql"
	"chargeonce/internal/payment"
	"chargeonce/internal/telemetry"
	"chargeonce/webhook"
)

// TestCases has the faults that users of comparable systems met, as far as they are about webhooks.
func TestCases(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		test func(*testing.T)
	}{
		{"case 17: a webhook that leads the response is not lost", finishAndWebhookInAnyOrder},
		{"case 17: a webhook at the same instant as the finish", finishAndWebhookAtTheSameInstant},
		{"case 17: old news does not overwrite newer", orderOfArrivalDoesNotMatter},
		{"case 18: concurrent duplicates have one effect", repeatsThatArriveAtOnceHaveOneEffect},
		{"case 18: an id is not recorded before the handling", handlingThatBreaksOffLeavesNothing},
		{"case 19: clock skew is borne up to 5 min, both ways", signatureDecidesWhoIsBelieved},
	} {
		t.Run(tt.name, tt.test)
	}
}

// The database breaks off in the middle of every transaction: the PSP is asked to send the event again, nothing of it is in the
// inbox, and when it comes again it has its effect.
func handlingThatBreaksOffLeavesNothing(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.claim()
	proxy := mysql.NewFaultProxy(t, e.dsn)
	proxy.Inject(mysql.Fault{Kind: mysql.LoseStatement, Match: "INSERT INTO payments", Times: 1000})
	db, err := mysql.Open(proxy.DSN, mysql.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	flow := payment.NewFlow(db, e.psp, renderer{}, payment.Timing{}, quiet())
	h, err := webhook.New(webhook.Config{DB: db, Flow: flow, Secrets: []telemetry.Secret{secretA}, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, signed(t, "evt_1", time.Now(), p.event(t, "succeeded"), secretA))
	if w.Code != 503 || w.Header().Get("Retry-After") == "" || proxy.Fired("INSERT INTO payments") < 2 {
		t.Errorf("%d %s after %d breaks, want 503 with Retry-After after some", w.Code, w.Body, proxy.Fired("INSERT INTO payments"))
	}
	var n int
	if err := e.db.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM webhook_events`).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d rows in the inbox (%v), want none", n, err)
	}
	if code, got := e.deliver("evt_1", p.event(t, "succeeded")); code != 200 || got != `{"result":"applied"}` {
		t.Errorf("sent again: %d %s", code, got)
	}
	if diff := cmp.Diff(p.paid("succeeded"), e.payments(p.chargeID)); diff != "" {
		t.Errorf("payments (-want +got):\n%s", diff)
	}
}
