package webhook_test

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/internal/idempotency"
	"chargeonce/internal/psp"
	"chargeonce/internal/telemetry"
)

// The PSP delivers at least once: early, repeated, out of order, some with a signature of nobody's, during a rotation of the
// secret. Every charge has its one payment, and every event its one effect.
func TestDeliveriesAsThePSPMakesThem(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	receiver := httptest.NewServer(e.handler)
	t.Cleanup(receiver.Close)
	sim := gatewaysim.Start(t, gatewaysim.Config{
		WebhookURL: receiver.URL, WebhookSecrets: []string{"whsec_Y2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjYw==", secretB.Reveal()},
		WebhookSpeedup: 1000, PendingAfter: 50 * time.Millisecond,
		Faults: &gatewaysim.Faults{Seed: 1, Webhooks: gatewaysim.WebhookFaults{
			Early: true, Repeat: 2, Shuffle: gatewaysim.Duration(20 * time.Millisecond), BadSignatureRate: 0.3,
		}},
	})
	client, err := psp.New(psp.Config{BaseURL: sim.URL, APIKey: telemetry.Secret(sim.APIKey), Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)

	want := map[string]string{}
	for i := range 30 {
		p := e.claim()
		token, ends := "tok_visa", "succeeded"
		switch i % 3 {
		case 1:
			token = "tok_pending"
		case 2:
			token, ends = "tok_pending_fails", "failed"
		}
		res := client.Charge(t.Context(), psp.ChargeRequest{
			Key: idempotency.PSPKey(p.user, p.key), Amount: 1999, Currency: "EUR", PaymentMethod: token,
			Metadata: psp.Metadata{UserID: p.user, PaymentID: p.paymentID, OrderID: "o-1"},
		})
		if !res.Kind.HasCharge() {
			t.Fatalf("%s: %+v", token, res)
		}
		want[p.paymentID] = ends + " " + res.Charge.ID
	}
	var got map[string]string
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for got = e.allPayments(); len(got) < len(want); got = e.allPayments() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%d of %d payments after 30 s", len(got), len(want))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("payments (-want +got):\n%s", diff)
	}
	var events, applied int
	if err := e.db.QueryRowContext(ctx, `SELECT COUNT(*), SUM(state = 'applied') FROM webhook_events`).Scan(&events, &applied); err != nil {
		t.Fatal(err)
	}
	if events != len(want) || applied != events {
		t.Errorf("%d events, %d applied, want %d", events, applied, len(want))
	}
}

// allPayments returns the status and charge of every payment, by its id.
func (e *env) allPayments() map[string]string {
	e.t.Helper()
	rows, err := e.db.QueryContext(e.t.Context(), `SELECT id, CONCAT(status, ' ', charge_id) FROM payments`)
	if err != nil {
		e.t.Fatal(err)
	}
	defer func() {
		if err := rows.Close(); err != nil {
			e.t.Error(err)
		}
	}()
	out := map[string]string{}
	for rows.Next() {
		var id, s string
		if err := rows.Scan(&id, &s); err != nil {
			e.t.Fatal(err)
		}
		out[id] = s
	}
	if err := rows.Err(); err != nil {
		e.t.Fatal(err)
	}
	return out
}
