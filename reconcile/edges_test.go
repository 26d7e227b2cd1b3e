package reconcile_test

import (
	"context"
	"testing"
	"time"

	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/internal/psp"
	"chargeonce/reconcile"
)

// A server froze in the middle of a finish, and its transaction keeps the key's row locked. That key waits for the next pass; all
// else that the pass has to do is done.
func TestALockedRowDoesNotStopThePass(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatewaysim.Config{})
	frozen, other, young := e.stuck(), e.stuck(), e.stuck()
	for _, p := range []purchase{frozen, other, young} {
		e.charge(p, "tok_visa")
	}
	conn, err := e.db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, statement := range []string{"START TRANSACTION", `UPDATE idempotency_keys SET locked_until = locked_until WHERE payment_id = '` + frozen.lease.PaymentID + `'`} {
		if _, err := conn.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	rep := e.pass(func(c *reconcile.Config) { c.Lease = 4 * time.Second })
	if rep.Stuck.Charged != 2 || rep.Stuck.Unknown != 1 || rep.Stuck.Seen != 3 {
		t.Errorf("stuck %+v; want the two free keys settled and the locked one left", rep.Stuck)
	}
	if e.inbox.retried.Load() != 1 || e.inbox.purged.Load() == 0 {
		t.Errorf("inbox tried %d times, purged %d; want every phase to have run", e.inbox.retried.Load(), e.inbox.purged.Load())
	}
	if rep.ExitCode() != reconcile.ExitClean || e.read(`SELECT COUNT(*) FROM reconcile_runs`) != "1" {
		t.Errorf("exit %d, %s passes recorded; want a clean one", rep.ExitCode(), e.read(`SELECT COUNT(*) FROM reconcile_runs`))
	}
	if _, err := conn.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if rep := e.pass(); rep.Stuck.Charged != 1 {
		t.Errorf("once it is free: %+v", rep.Stuck)
	}
}

// filtering is a PSP whose statement has empty pages in the middle, as one that filters after it has cut the pages.
type filtering struct {
	*psp.Client
	pages int
}

func (f *filtering) Statement(ctx context.Context, after time.Time, cursor string, limit int) (psp.Page, error) {
	if f.pages++; f.pages <= 3 {
		return psp.Page{NextCursor: "empty-" + string(rune('0'+f.pages))}, nil
	}
	return f.Client.Statement(ctx, after, "", limit)
}

// Only an empty cursor ends the statement. Were an empty page taken for its end, the mark would pass what was never read.
func TestAnEmptyPageDoesNotEndTheStatement(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatewaysim.Config{})
	p := e.stuck()
	e.charge(p, "tok_visa")
	rep := e.pass(func(c *reconcile.Config) { c.PSP, c.Grace = &filtering{Client: e.own}, time.Hour })
	if rep.Statement.Read != 1 {
		t.Errorf("read %d charges; want the one behind the empty pages", rep.Statement.Read)
	}
	if got := e.payment(p); got != "succeeded 1999" {
		t.Errorf("the payment: %q", got)
	}
}

// endless never ends and never shows anything.
type endless struct {
	*psp.Client
	pages int
}

func (f *endless) Statement(context.Context, time.Time, string, int) (psp.Page, error) {
	f.pages++
	return psp.Page{NextCursor: time.Duration(f.pages).String()}, nil
}

func TestAStatementWithoutEndIsGivenUp(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatewaysim.Config{})
	_, err := e.reconciler(func(c *reconcile.Config) { c.PSP = &endless{Client: e.own} }).Pass(t.Context())
	if err == nil {
		t.Error("no error")
	}
	if got := e.read(`SELECT COUNT(*) FROM reconcile_marks WHERE name = 'psp_statement'`); got != "0" {
		t.Errorf("%s marks; what was not read must not be passed", got)
	}
}
