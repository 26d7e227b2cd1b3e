package reconcile_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/wrapperspb"

	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/internal/payment"
	"chargeonce/internal/psp"
	"chargeonce/reconcile"
)

// No key stays in progress for ever, and what is unknown is asked for, not guessed.
func stuckKeyEndsByWhatThePSPSays(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		prepare func(e *env, p purchase)
		want    string
		counts  reconcile.Stuck
		exit    int
	}{
		{"charged", func(e *env, p purchase) { e.charge(p, "tok_visa") },
			"done 201 succeeded / succeeded 1999", reconcile.Stuck{Seen: 1, Charged: 1}, 0},
		{"pending", func(e *env, p purchase) { e.charge(p, "tok_pending") },
			"done 202 pending / pending 1999", reconcile.Stuck{Seen: 1, Charged: 1}, 0},
		{"refunded meanwhile", func(e *env, p purchase) { e.refund(e.charge(p, "tok_visa").Charge.ID) },
			"done 201 refunded / refunded 1999", reconcile.Stuck{Seen: 1, Charged: 1}, 0},
		{"declined", func(e *env, p purchase) { e.charge(p, "tok_declined") },
			"done 402 declined / ", reconcile.Stuck{Seen: 1, Refused: 1}, 0},
		{"rejected", func(e *env, p purchase) { e.charge(p, "tok_rejected") },
			"done 402 rejected / ", reconcile.Stuck{Seen: 1, Refused: 1}, 0},
		{"never seen, the attempt young", func(*env, purchase) {},
			"processing / ", reconcile.Stuck{Seen: 1, TooYoung: 1}, 0},
		{"never seen, the attempt old", func(e *env, p purchase) { e.old(p) },
			"done 410 abandoned / ", reconcile.Stuck{Seen: 1, Abandoned: 1}, 0},
		{"cancelled by a pass that died before its finish", func(e *env, p purchase) {
			e.own.Cancel(e.t.Context(), p.pspKey(), psp.Expect{})
		}, "done 410 abandoned / ", reconcile.Stuck{Seen: 1, Abandoned: 1}, 0},
		{"another amount at the PSP", func(e *env, p purchase) {
			e.charge(p, "tok_visa")
			e.exec(`UPDATE idempotency_keys SET amount = 1`)
		}, "parked / ", reconcile.Stuck{Seen: 1, Parked: 1}, 1},
		{"not expired for long enough", func(e *env, p purchase) {
			e.exec(`UPDATE idempotency_keys SET locked_until = NOW(3) + INTERVAL 1 MINUTE`)
		}, "processing / ", reconcile.Stuck{}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, gatewaysim.Config{PendingAfter: time.Hour})
			p := e.stuck()
			tt.prepare(e, p)
			// The newest charges are left alone, so that the statement does not write what the key's own phase should.
			rep := e.pass(func(c *reconcile.Config) { c.Quiet, c.PendingAfter = time.Hour, time.Hour })
			if diff := cmp.Diff(tt.want, e.state(p)); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
			rep.Stuck.OldestMS = 0
			if diff := cmp.Diff(tt.counts, rep.Stuck); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
			if rep.ExitCode() != tt.exit {
				t.Errorf("exit %d, want %d: %+v", rep.ExitCode(), tt.exit, rep)
			}
		})
	}
}

func TestGraceLetsTheClientGoFirst(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatewaysim.Config{})
	e.charge(e.stuck(), "tok_visa") // its lease is over for a second
	if rep := e.pass(func(c *reconcile.Config) { c.Grace, c.Quiet = time.Minute, time.Hour }); rep.Stuck.Seen != 0 {
		t.Errorf("a key that expired a second ago was taken within a grace of a minute: %+v", rep.Stuck)
	}
}

// The newest expiry is where a released key goes: a pass that followed it would ask for it again and again.
func eachKeyIsSeenOncePerPass(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatewaysim.Config{})
	for range 7 {
		e.stuck()
	}
	rep := e.pass(func(c *reconcile.Config) { c.Grace, c.Batch = time.Microsecond, 2 })
	rep.Stuck.OldestMS = 0
	if diff := cmp.Diff(reconcile.Stuck{Seen: 7, TooYoung: 7}, rep.Stuck); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

func twoPassesAtOnceSettleEachKeyOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatewaysim.Config{})
	const n = 60
	for range n {
		e.charge(e.stuck(), "tok_visa")
	}
	var both sync.WaitGroup
	var reps [2]reconcile.Report
	for i := range reps {
		r := e.reconciler(func(c *reconcile.Config) { c.Batch = 10 })
		both.Go(func() {
			var err error
			if reps[i], err = r.Pass(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	if got := reps[0].Stuck.Charged + reps[1].Stuck.Charged; got != n {
		t.Errorf("settled %d, want %d: %+v %+v", got, n, reps[0].Stuck, reps[1].Stuck)
	}
	if got := e.read(`SELECT CONCAT_WS(' ', COUNT(*), MIN(lease), MAX(lease), MIN(status), MAX(status)) FROM idempotency_keys`); got != fmt.Sprintf("%d 2 2 done done", n) {
		t.Errorf("keys (count, leases, status): %s", got)
	}
	if got := e.read(`SELECT CONCAT_WS(' ', COUNT(*), COUNT(DISTINCT charge_id)) FROM payments`); got != fmt.Sprintf("%d %d", n, n) {
		t.Errorf("payments: %s", got)
	}
	if reps[0].ExitCode() != 0 || reps[1].ExitCode() != 0 {
		t.Errorf("exits %d %d, want 0: %+v %+v", reps[0].ExitCode(), reps[1].ExitCode(), reps[0], reps[1])
	}
}

// A PSP that is down decides nothing, and a backlog of keys does not hammer it.
func pspThatIsDownDecidesNothing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		rule gatewaysim.Rule
	}{
		{"it fails", gatewaysim.Rule{Fault: gatewaysim.ErrorAnswer, Status: 500}},
		{"it refuses our credential", gatewaysim.Rule{Fault: gatewaysim.ErrorAnswer, Status: 401}},
		{"it drops every connection", gatewaysim.Rule{Fault: gatewaysim.DropConnection}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, gatewaysim.Config{})
			const n = 50
			for range n {
				p := e.stuck()
				e.charge(p, "tok_visa")
				e.old(p)
			}
			if err := e.sim.SetFaults(gatewaysim.Faults{Rules: []gatewaysim.Rule{tt.rule}}); err != nil {
				t.Fatal(err)
			}
			before := len(e.sim.Requests())
			rep := e.pass()
			if !rep.PSPDown || rep.ExitCode() != reconcile.ExitCouldNotRun {
				t.Errorf("down %v, exit %d, want true and 2", rep.PSPDown, rep.ExitCode())
			}
			if calls := len(e.sim.Requests()) - before; calls > 40 {
				t.Errorf("%d calls to a PSP that is down", calls)
			}
			if got := e.read(`SELECT CONCAT_WS(' ', status, COUNT(*), SUM(locked_until <= NOW(3))) FROM idempotency_keys GROUP BY status`); got != fmt.Sprintf("processing %d %d", n, n) {
				t.Errorf("keys: %s, want all processing and free", got)
			}
			if e.inbox.retried.Load() != 1 || e.inbox.purged.Load() == 0 {
				t.Error("the phases that do not need the PSP did not run")
			}
			if err := e.sim.ClearFaults(); err != nil {
				t.Fatal(err)
			}
			e.own = e.client(e.sim.URL)
			if rep := e.pass(); rep.Stuck.Charged != n {
				t.Errorf("after its return: %+v", rep.Stuck)
			}
		})
	}
}

// frozen is the PSP for a reconciliation that is stopped (SIGSTOP) after it was told that a key was never seen.
type frozen struct {
	reconcile.PSP
	reached chan struct{}
	thaw    chan struct{}
}

func (f frozen) Cancel(ctx context.Context, key string, want psp.Expect) psp.Result {
	f.reached <- struct{}{}
	<-f.thaw
	return f.PSP.Cancel(context.WithoutCancel(ctx), key, want) // its own deadline is long over
}

// The technical cancel never moves money: a reconciliation that froze past its lease, and wakes to cancel a key that was taken
// over and charged meanwhile, gets the charge back and changes nothing.
func frozenReconciliationCancelsNothing(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatewaysim.Config{})
	p := e.stuck()
	e.old(p)
	f := frozen{PSP: e.own, reached: make(chan struct{}), thaw: make(chan struct{})}
	r := e.reconciler(func(c *reconcile.Config) { c.PSP, c.Quiet = f, time.Hour })
	done := make(chan reconcile.Report, 1)
	go func() {
		rep, err := r.Pass(context.WithoutCancel(t.Context()))
		if err != nil {
			t.Error(err)
		}
		done <- rep
	}()
	<-f.reached
	e.expire(p)
	answer := e.retry(p)
	if answer.Stored.Code != 201 {
		t.Fatalf("the client's retry was answered %d %s", answer.Stored.Code, answer.Stored.Body)
	}
	before := e.read(`SELECT CONCAT_WS(' ', lease, HEX(holder), completed_at) FROM idempotency_keys`)
	close(f.thaw)
	rep := <-done
	if got := e.state(p); got != "done 201 succeeded / succeeded 1999" {
		t.Errorf("state %s", got)
	}
	if after := e.read(`SELECT CONCAT_WS(' ', lease, HEX(holder), completed_at) FROM idempotency_keys`); after != before {
		t.Errorf("the woken one wrote: %s became %s", before, after)
	}
	if got := e.sim.Stats().Charges; got != 1 {
		t.Errorf("%d charges at the PSP, want 1", got)
	}
	if rep.ExitCode() != 0 {
		t.Errorf("exit %d: %+v", rep.ExitCode(), rep)
	}
}

// late is the PSP for a request that is stopped before it sends its charge.
type late struct {
	*psp.Client
	reached chan struct{}
	thaw    chan struct{}
}

func (l late) Charge(ctx context.Context, r psp.ChargeRequest) psp.Result {
	l.reached <- struct{}{}
	<-l.thaw
	return l.Client.Charge(context.WithoutCancel(ctx), r)
}

// A holder that wakes after its key was abandoned is refused by the PSP and fenced by the lease.
func holderThatWakesAfterAbandonmentChargesNothing(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatewaysim.Config{})
	p := e.stuck() // the client's retry takes it over and freezes
	l := late{Client: e.psp, reached: make(chan struct{}), thaw: make(chan struct{})}
	done := make(chan payment.Answer, 1)
	go func() { done <- e.retryBy(l, p) }()
	<-l.reached
	e.expire(p)
	e.old(p)
	if rep := e.pass(); rep.Stuck.Abandoned != 1 {
		t.Fatalf("not abandoned: %+v", rep.Stuck)
	}
	close(l.thaw)
	if a := <-done; a.Stored.Code != 410 || !a.Replayed {
		t.Errorf("the woken holder answered %d %s", a.Stored.Code, a.Stored.Body)
	}
	if got := e.state(p); got != "done 410 abandoned / " {
		t.Errorf("state %s", got)
	}
	if got := e.sim.Stats().Charges; got != 0 {
		t.Errorf("%d charges at the PSP, want none", got)
	}
}

func (e *env) retry(p purchase) payment.Answer { return e.retryBy(e.psp, p) }

// retryBy sends the purchase's request again.
func (e *env) retryBy(gateway payment.PSP, p purchase) payment.Answer {
	flow := payment.NewFlow(e.db, gateway, renderer{}, payment.Timing{}, quiet())
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.t.Context()), 30*time.Second)
	defer cancel()
	l := p.lease
	a, err := flow.Create(ctx, payment.Purchase{
		UserID: l.UserID, Key: l.Key, RPC: "test", Request: wrapperspb.String("x"),
		OrderID: l.OrderID, Amount: l.Amount, Currency: l.Currency, PaymentMethod: "tok_visa",
	})
	if err != nil {
		e.t.Errorf("retry: %v", err)
	}
	return a
}
