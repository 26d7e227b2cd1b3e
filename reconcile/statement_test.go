package reconcile_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/internal/psp"
	"chargeonce/reconcile"
)

// The statement against our payments: what a program may mend is mended, the rest is reported and left alone.
func TestStatementAgainstPayments(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		spoil   func(e *env, p purchase, c psp.Charge)
		payment string
		want    []reconcile.Finding
		counts  reconcile.Statement
	}{
		{"in agreement", func(*env, purchase, psp.Charge) {},
			"succeeded 1999", nil, reconcile.Statement{Read: 1}},
		{"missing here", func(e *env, p purchase, _ psp.Charge) { e.exec(`DELETE FROM payments`) },
			"succeeded 1999", nil, reconcile.Statement{Read: 1, Written: 1}},
		{"missing here, and no key of ours made it", func(e *env, _ purchase, _ psp.Charge) {
			e.exec(`DELETE FROM payments`)
			e.exec(`DELETE FROM idempotency_keys`)
		}, "", []reconcile.Finding{{Kind: reconcile.Orphan, UserID: 42}}, reconcile.Statement{Read: 1}},
		{"missing here, and the key is for another amount", func(e *env, _ purchase, _ psp.Charge) {
			e.exec(`DELETE FROM payments`)
			e.exec(`UPDATE idempotency_keys SET amount = 1`)
		}, "", []reconcile.Finding{{Kind: reconcile.Differs, UserID: 42}}, reconcile.Statement{Read: 1}},
		{"missing there", func(e *env, _ purchase, _ psp.Charge) {
			e.exec(`INSERT INTO payments SELECT user_id, 'pay_x', order_id, amount, currency, status, 'ch_x', created_at, updated_at FROM payments`)
		}, "succeeded 1999", []reconcile.Finding{{Kind: reconcile.MissingThere, UserID: 42}}, reconcile.Statement{Read: 1}},
		{"another amount", func(e *env, _ purchase, _ psp.Charge) { e.exec(`UPDATE payments SET amount = 1`) },
			"succeeded 1", []reconcile.Finding{{Kind: reconcile.Differs, UserID: 42}}, reconcile.Statement{Read: 1}},
		{"another currency", func(e *env, _ purchase, _ psp.Charge) { e.exec(`UPDATE payments SET currency = 'USD'`) },
			"succeeded 1999", []reconcile.Finding{{Kind: reconcile.Differs, UserID: 42}}, reconcile.Statement{Read: 1}},
		{"another order", func(e *env, _ purchase, _ psp.Charge) { e.exec(`UPDATE payments SET order_id = 'o-x'`) },
			"succeeded 1999", []reconcile.Finding{{Kind: reconcile.Differs, UserID: 42}}, reconcile.Statement{Read: 1}},
		{"a status that the PSP's cannot come from", func(e *env, _ purchase, _ psp.Charge) { e.exec(`UPDATE payments SET status = 'failed'`) },
			"failed 1999", []reconcile.Finding{{Kind: reconcile.Differs, UserID: 42}}, reconcile.Statement{Read: 1}},
		{"a status ahead of the PSP's", func(e *env, _ purchase, _ psp.Charge) { e.exec(`UPDATE payments SET status = 'refunded'`) },
			"refunded 1999", []reconcile.Finding{{Kind: reconcile.Differs, UserID: 42}}, reconcile.Statement{Read: 1}},
		{"refunded there, and the webhook lost", func(e *env, _ purchase, c psp.Charge) { e.refund(c.ID) },
			"refunded 1999", nil, reconcile.Statement{Read: 1, Raised: 1}},
		{"a charge that is not ours", func(e *env, _ purchase, _ psp.Charge) {
			e.post("/charges", map[string]string{"Idempotency-Key": "theirs"},
				map[string]any{"amount": 5, "currency": "EUR", "payment_method": "tok_visa"})
		}, "succeeded 1999", []reconcile.Finding{{Kind: reconcile.Orphan}}, reconcile.Statement{Read: 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, gatewaysim.Config{})
			p := e.stuck()
			res := e.charge(p, "tok_visa")
			if rep := e.pass(func(c *reconcile.Config) { c.Quiet = time.Hour }); rep.Stuck.Charged != 1 {
				t.Fatalf("not finished: %+v", rep)
			}
			tt.spoil(e, p, *res.Charge)
			rep := e.pass(func(c *reconcile.Config) { c.PendingAfter = time.Hour })
			if diff := cmp.Diff(tt.want, rep.Findings, cmpopts.EquateEmpty(),
				cmpopts.IgnoreFields(reconcile.Finding{}, "PaymentID", "ChargeID", "Detail")); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			rep.Statement.Mark = time.Time{}
			if diff := cmp.Diff(tt.counts, rep.Statement); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
			if got := e.payment(p); got != tt.payment {
				t.Errorf("payment %q, want %q", got, tt.payment)
			}
			if want := min(len(tt.want), 1); rep.ExitCode() != want {
				t.Errorf("exit %d, want %d", rep.ExitCode(), want)
			}
		})
	}
}

func TestNewestEndOfTheStatementIsLeftAlone(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatewaysim.Config{})
	e.paid()
	e.exec(`DELETE FROM payments`) // its webhook is late
	rep := e.pass(func(c *reconcile.Config) { c.Quiet = 10 * time.Minute })
	if rep.Statement.Read != 0 || rep.Found != 0 {
		t.Errorf("%+v, %d found", rep.Statement, rep.Found)
	}
}

// A payment that was written long after its charge is in no stretch of the statement that its own time is in: it is asked for
// by id before anybody is alarmed.
func TestPaymentThatWasWrittenLateIsNoAlarm(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatewaysim.Config{})
	e.paid()
	e.exec(`UPDATE reconcile_marks SET mark = NOW(3)`)
	e.exec(`UPDATE payments SET created_at = NOW(3)`)
	rep := e.pass(func(c *reconcile.Config) { c.Overlap = time.Microsecond })
	if rep.Statement.Read != 0 || rep.Found != 0 || e.calls("GET") < 2 {
		t.Errorf("%+v, findings %+v, %d reads", rep.Statement, rep.Findings, e.calls("GET"))
	}
}

func TestStatementGoesOnFromItsMarkWithAnOverlap(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatewaysim.Config{})
	for range 5 {
		e.charge(e.stuck(), "tok_visa")
	}
	paged := func(c *reconcile.Config) { c.PageSize = 2 }
	first := e.pass(paged)
	if first.Statement.Read != 5 {
		t.Fatalf("read %+v, want 5", first.Statement)
	}
	if again := e.pass(paged); again.Statement.Read != 5 || again.Found != 0 {
		t.Errorf("within the overlap: %+v, %d found", again.Statement, again.Found)
	}
	last := e.pass(paged, func(c *reconcile.Config) { c.Overlap = time.Microsecond })
	if last.Statement.Read != 0 || !last.Statement.Mark.After(first.Statement.Mark) {
		t.Errorf("without an overlap: %+v", last.Statement)
	}
}

func TestMarkDoesNotPassWhatCouldNotBeDecided(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatewaysim.Config{})
	e.paid()
	e.exec(`DELETE FROM reconcile_marks`)
	e.exec(`INSERT INTO payments SELECT user_id, 'pay_x', order_id, amount, currency, status, 'ch_x', created_at, updated_at FROM payments`)
	if err := e.sim.SetFaults(gatewaysim.Faults{Rules: []gatewaysim.Rule{
		{Fault: gatewaysim.ErrorAnswer, Match: gatewaysim.Match{Path: "/charges/ch_x"}},
	}}); err != nil {
		t.Fatal(err)
	}
	if rep := e.pass(); rep.Found != 0 || !rep.Statement.Mark.IsZero() {
		t.Errorf("undecided, and yet %+v, %d found", rep.Statement, rep.Found)
	}
	if err := e.sim.ClearFaults(); err != nil {
		t.Fatal(err)
	}
	e.own = e.client(e.sim.URL)
	if rep := e.pass(); rep.Found != 1 || rep.Statement.Mark.IsZero() {
		t.Errorf("%+v, %d found, want one", rep.Statement, rep.Found)
	}
}

func TestStatementThatIsNotGivenIsNoCleanPass(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatewaysim.Config{})
	if err := e.sim.SetFaults(gatewaysim.Faults{Rules: []gatewaysim.Rule{{Fault: gatewaysim.ErrorAnswer, Status: 401}}}); err != nil {
		t.Fatal(err)
	}
	if rep := e.pass(); rep.ExitCode() != reconcile.ExitCouldNotRun || !rep.Statement.Mark.IsZero() {
		t.Errorf("exit %d, %+v; want 2 and no mark", rep.ExitCode(), rep.Statement)
	}
}

// Keys in flight, late webhooks and two processes at once: all is charged once and written once, and nobody is alarmed.
func twoPassesOverLiveTrafficRaiseNoAlarm(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatewaysim.Config{})
	const n = 40
	var all sync.WaitGroup
	for range n / 2 {
		p := e.stuck()
		e.charge(p, "tok_visa")
		q := e.stuck()
		all.Go(func() { e.retry(q) })
	}
	for range 2 {
		r := e.reconciler(func(c *reconcile.Config) { c.PageSize, c.Batch = 7, 5 })
		all.Go(func() {
			for range 3 {
				if rep, err := r.Pass(t.Context()); err != nil || rep.ExitCode() != 0 {
					t.Errorf("exit %d, %v: %+v", rep.ExitCode(), err, rep.Findings)
				}
			}
		})
	}
	all.Wait()
	rep := e.pass()
	if rep.ExitCode() != 0 {
		t.Errorf("exit %d: %+v", rep.ExitCode(), rep.Findings)
	}
	if got := e.read(`SELECT CONCAT_WS(' ', COUNT(*), COUNT(DISTINCT charge_id), SUM(status = 'succeeded')) FROM payments`); got != strings.TrimSpace(strings.Repeat("40 ", 3)) {
		t.Errorf("payments: %s", got)
	}
	if got := e.sim.Stats().Charges; got != n {
		t.Errorf("%d charges, want %d", got, n)
	}
}
