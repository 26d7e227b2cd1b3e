package reconcile_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/reconcile"
)

// Only what is done and past its retention goes: refusals after a day, keys that charged after 90.
func TestPurgeOfKeys(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatewaysim.Config{})
	quiet := func(c *reconcile.Config) { c.Quiet, c.Batch = time.Hour, 2 }
	made := map[string]purchase{}
	add := func(name, token string) {
		p := e.stuck()
		e.charge(p, token)
		made[name] = p
	}
	add("refused young", "tok_declined")
	add("refused old", "tok_declined")
	add("refused old, the second", "tok_rejected")
	add("refused old, charged after all", "tok_declined")
	add("charged old", "tok_visa")
	add("charged old, its row under another id", "tok_visa")
	add("charged very old", "tok_visa")
	add("charged very old, holds its order", "tok_visa")
	e.pass(quiet)
	e.exec(`UPDATE idempotency_keys SET open_order = order_id, completed_at = NOW(3) - INTERVAL 91 DAY WHERE payment_id = ?`,
		made["charged very old, holds its order"].lease.PaymentID)
	e.exec(`UPDATE payments SET id = 'pay_other' WHERE id = ?`, made["charged old, its row under another id"].lease.PaymentID)
	made["stuck old"] = e.stuck()
	made["parked old"] = e.stuck()
	e.exec(`UPDATE idempotency_keys SET status = 'parked' WHERE payment_id = ?`, made["parked old"].lease.PaymentID)
	e.exec(`UPDATE idempotency_keys SET completed_at = NOW(3) - INTERVAL 25 HOUR, created_at = NOW(3) - INTERVAL 25 HOUR WHERE payment_id <> ? AND open_order IS NULL`, made["refused young"].lease.PaymentID)
	e.exec(`UPDATE idempotency_keys SET completed_at = NOW(3) - INTERVAL 91 DAY WHERE payment_id = ?`, made["charged very old"].lease.PaymentID)
	after := made["refused old, charged after all"].lease
	e.exec(`INSERT INTO payments VALUES (?, ?, ?, 1999, 'EUR', 'succeeded', 'ch_after', NOW(3), NOW(3))`, after.UserID, after.PaymentID, after.OrderID)

	dry := e.pass(quiet, func(c *reconcile.Config) { c.DryRun = true })
	rep := e.pass(quiet)
	if dry.Purged.Keys != 3 || rep.Purged.Keys != 3 {
		t.Errorf("purged %d, foreseen %d, want 3", rep.Purged.Keys, dry.Purged.Keys)
	}
	// Of the four that charged, one has no payment to make its answer from; of the others one was then deleted.
	if rep.Purged.Compacted != 3 {
		t.Errorf("compacted %d, want 3", rep.Purged.Compacted)
	}
	for name, want := range map[string]string{"charged old": "compacted", "charged old, its row under another id": "whole",
		"charged very old, holds its order": "compacted"} {
		if got := e.read(`SELECT IF(response_body IS NULL, 'compacted', 'whole') FROM idempotency_keys WHERE payment_id = ?`, made[name].lease.PaymentID); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	left := map[string]bool{}
	for name, p := range made {
		if e.read(`SELECT status FROM idempotency_keys WHERE payment_id = ?`, p.lease.PaymentID) != "none" {
			left[name] = true
		}
	}
	want := map[string]bool{"refused young": true, "refused old, charged after all": true, "charged old": true,
		"charged old, its row under another id": true, "stuck old": true, "parked old": true, "charged very old, holds its order": true}
	if diff := cmp.Diff(want, left); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	if got := e.payment(made["charged very old"]); got != "succeeded 1999" {
		t.Errorf("the payment of a purged key: %q", got)
	}
	if rep := e.pass(quiet); rep.Purged.Keys != 0 {
		t.Errorf("purged %d again", rep.Purged.Keys)
	}
}

// The purge deletes by primary key, a batch at a time: claims that run meanwhile wait for nothing. Were one to wait for the
// purge's locks, it would end with error 1205 or 1213.
func TestPurgeDoesNotHoldUpClaims(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatewaysim.Config{})
	const n = 2000
	e.exec(`
		INSERT INTO idempotency_keys
		  (user_id, idem_key, request_hash, hash_version, status, lease, holder, locked_until, payment_id, order_id, amount, currency,
		   response_code, response_body, created_at, attempted_at, completed_at)
		WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1000)
		SELECT 42, CONCAT('old-', a.n, '-', b.n), REPEAT('x', 32), 1, 'done', 1, REPEAT('h', 16), NOW(3), CONCAT('pay_', a.n, '-', b.n), 'o', 1, 'EUR',
		       402, 'declined', NOW(3), NOW(3), NOW(3) - INTERVAL 2 DAY
		FROM numbers a, (SELECT 1 AS n UNION ALL SELECT 2) b`)
	r := e.reconciler(func(c *reconcile.Config) { c.Quiet, c.Grace, c.Batch = time.Hour, time.Hour, 100 })
	done := make(chan reconcile.Report, 1)
	go func() {
		rep, err := r.Pass(context.WithoutCancel(t.Context()))
		if err != nil {
			t.Error(err)
		}
		done <- rep
	}()
	claims, slowest := 0, time.Duration(0)
	var rep reconcile.Report
	for running := true; running; claims++ {
		began := time.Now()
		e.stuck() // fails the test if the claim fails
		slowest = max(slowest, time.Since(began))
		select {
		case rep = <-done:
			running = false
		default:
		}
	}
	t.Logf("%d claims while %d keys were purged; the slowest took %s", claims, rep.Purged.Keys, slowest)
	if rep.Purged.Keys != n {
		t.Errorf("purged %d, want %d", rep.Purged.Keys, n)
	}
}
