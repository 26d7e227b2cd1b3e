package reconcile_test

import (
	"errors"
	"testing"
	"time"

	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/internal/idempotency"
	"chargeonce/reconcile"
)

// parked makes a key that waits for a person: the PSP holds a charge of another amount under it.
func (e *env) parked() purchase {
	e.t.Helper()
	p := e.stuck()
	e.charge(p, "tok_visa")
	e.exec(`UPDATE idempotency_keys SET amount = 1`)
	if rep := e.pass(quietly); rep.Parked != 1 || rep.ExitCode() != reconcile.ExitNeedsPerson {
		e.t.Fatalf("not parked: %+v", rep)
	}
	return p
}

func quietly(c *reconcile.Config) { c.Quiet = time.Hour }

func TestParkedKeyIsListedAndGivenBack(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatewaysim.Config{})
	p := e.parked()
	r := reconcile.NewParked(e.db, renderer{})
	list, err := r.List(t.Context(), 10)
	if err != nil || len(list) != 1 || list[0].PaymentID != p.lease.PaymentID || list[0].ParkedFor == "" {
		t.Fatalf("%+v %v", list, err)
	}
	e.exec(`UPDATE idempotency_keys SET amount = 1999`) // the person has found what was wrong
	if err := r.Requeue(t.Context(), 42, p.lease.PaymentID); err != nil {
		t.Fatal(err)
	}
	e.expire(p)
	if rep := e.pass(quietly); rep.Stuck.Charged != 1 || rep.ExitCode() != 0 {
		t.Errorf("%+v", rep)
	}
	if got := e.state(p); got != "done 201 succeeded / succeeded 1999" {
		t.Errorf("state %s", got)
	}
	if err := r.Requeue(t.Context(), 42, p.lease.PaymentID); !errors.Is(err, reconcile.ErrNotParked) {
		t.Errorf("given back again: %v", err)
	}
}

func TestParkedKeyIsAbandonedByAPerson(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatewaysim.Config{})
	p := e.parked()
	r := reconcile.NewParked(e.db, renderer{})
	if err := r.Abandon(t.Context(), 43, p.lease.PaymentID); !errors.Is(err, reconcile.ErrNotParked) {
		t.Errorf("under another user: %v", err)
	}
	if err := r.Abandon(t.Context(), 42, p.lease.PaymentID); err != nil {
		t.Fatal(err)
	}
	if got := e.state(p); got != "done 410 abandoned / " {
		t.Errorf("state %s", got)
	}
	if rep := e.pass(quietly); rep.ExitCode() != 0 {
		t.Errorf("%+v", rep)
	}
}

// Whoever parked the key and still believes to hold it is fenced.
func TestUnparkIsATakeOver(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatewaysim.Config{})
	p := e.parked()
	row, err := e.keys.ByPayment(t.Context(), e.db, 42, p.lease.PaymentID)
	if err != nil {
		t.Fatal(err)
	}
	lease, err := e.keys.Unpark(t.Context(), row, time.Minute)
	if err != nil || lease.Token != row.Lease+1 || lease.Holder == row.Holder {
		t.Fatalf("%+v %v", lease, err)
	}
	if now, err := e.keys.Read(t.Context(), row.UserID, row.Key); err != nil || !now.HeldBy(lease) || now.LeaseLeft <= 0 {
		t.Errorf("the row says %+v %v", now, err)
	}
	if _, err := e.keys.Unpark(t.Context(), row, time.Minute); !errors.Is(err, idempotency.ErrLeaseLost) {
		t.Errorf("a second one: %v", err)
	}
}
