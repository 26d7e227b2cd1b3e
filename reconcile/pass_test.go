package reconcile_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/internal/psp"
	"chargeonce/reconcile"
)

func TestPassLeavesARow(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatewaysim.Config{})
	e.charge(e.stuck(), "tok_visa")
	e.inbox.dead, e.inbox.applied, e.inbox.events = 2, 3, 401
	rep := e.pass(func(c *reconcile.Config) { c.Quiet = time.Hour })
	if rep.ExitCode() != reconcile.ExitNeedsPerson || rep.NeedsPerson != 2 {
		t.Errorf("exit %d for %d that need a person, want 1 for the 2 dead events", rep.ExitCode(), rep.NeedsPerson)
	}
	if rep.Purged.Events != 401 || e.inbox.purged.Load() != 3 {
		t.Errorf("purged %d events in %d batches, want 401 in 3", rep.Purged.Events, e.inbox.purged.Load())
	}
	var stored reconcile.Report
	if err := json.Unmarshal([]byte(e.read(`SELECT counts FROM reconcile_runs WHERE id = ? AND needs_person = 2`, rep.ID)), &stored); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rep, stored); diff != "" {
		t.Errorf("stored report (-want +got):\n%s", diff)
	}
}

func TestPhaseThatFailsDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatewaysim.Config{})
	e.inbox.err, e.inbox.events = errors.New("a test"), 1
	rep, err := e.reconciler().Pass(t.Context())
	if !errors.Is(err, e.inbox.err) {
		t.Errorf("error %v, want the inbox's", err)
	}
	if rep.Purged.Events != 1 || e.read(`SELECT COUNT(*) FROM reconcile_runs`) != "1" {
		t.Errorf("the purge or the row of the pass is missing: %+v", rep)
	}
}

func TestDryRunChangesNothing(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatewaysim.Config{PendingAfter: 10 * time.Millisecond})
	q := e.stuck()
	e.charge(q, "tok_pending")
	e.pass(func(c *reconcile.Config) { c.Quiet, c.PendingAfter = time.Hour, time.Hour })
	lost, _ := e.paid()
	e.exec(`DELETE FROM payments WHERE id = ?`, lost.lease.PaymentID)
	e.exec(`DELETE FROM reconcile_marks`)
	e.exec(`UPDATE payments SET status = 'pending'`)
	e.charge(e.stuck(), "tok_visa")
	e.charge(e.stuck(), "tok_declined")
	e.old(e.stuck())
	e.stuck()
	tables := func() string {
		all := ""
		for _, table := range []string{"idempotency_keys", "payments", "webhook_events", "reconcile_marks", "reconcile_runs"} {
			var name string
			var sum *int64
			if err := e.db.QueryRowContext(t.Context(), "CHECKSUM TABLE "+table).Scan(&name, &sum); err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(sum)
			if err != nil {
				t.Fatal(err)
			}
			all += table + " " + string(text) + "\n"
		}
		return all
	}
	before, posts := tables(), e.calls("POST")
	rep := e.pass(func(c *reconcile.Config) { c.DryRun = true })
	if diff := cmp.Diff(before, tables()); diff != "" {
		t.Errorf("tables (-before +after):\n%s", diff)
	}
	if got := e.calls("POST"); got != posts {
		t.Errorf("%d POSTs at the PSP", got-posts)
	}
	if e.inbox.retried.Load() != 2 {
		t.Error("the inbox was retried")
	}
	rep.Stuck.OldestMS = 0
	if diff := cmp.Diff(reconcile.Stuck{Seen: 4, Charged: 1, Refused: 1, Abandoned: 1, TooYoung: 1}, rep.Stuck); diff != "" {
		t.Errorf("stuck (-want +got):\n%s", diff)
	}
	if rep.Pending.Changed != 1 || rep.Statement.Written != 2 || !rep.DryRun {
		t.Errorf("pending %+v, statement %+v", rep.Pending, rep.Statement)
	}
}

// slow is a PSP whose look-ups wait until they are let go.
type slow struct {
	reconcile.PSP
	reached chan struct{}
	goOn    chan struct{}
}

func (s slow) LookUp(ctx context.Context, key string, want psp.Expect) psp.Result {
	s.reached <- struct{}{}
	<-s.goOn
	return s.PSP.LookUp(ctx, key, want)
}

func TestStopEndsWhatWasBegunAndTakesUpNothingNew(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatewaysim.Config{})
	for range 10 {
		e.charge(e.stuck(), "tok_visa")
	}
	s := slow{PSP: e.own, reached: make(chan struct{}), goOn: make(chan struct{})}
	r := e.reconciler(func(c *reconcile.Config) { c.PSP, c.Concurrency = s, 2 })
	ctx, stop := context.WithCancel(t.Context())
	passes := atomic.Int64{}
	done := make(chan reconcile.Report, 1)
	go r.Every(ctx, time.Hour, time.Hour, func(rep reconcile.Report, err error) {
		if err != nil {
			t.Error(err)
		}
		passes.Add(1)
		done <- rep
	})
	<-s.reached
	<-s.reached
	stop()
	close(s.goOn)
	rep := <-done
	if rep.ExitCode() != reconcile.ExitCouldNotRun {
		t.Errorf("exit %d of a pass that was stopped, want 2", rep.ExitCode())
	}
	if !rep.Stopped || rep.Stuck.Charged != 2 || rep.Stuck.Seen != 2 {
		t.Errorf("stopped %v, %+v; want the 2 that were begun", rep.Stopped, rep.Stuck)
	}
	if got := e.read(`SELECT COUNT(*) FROM reconcile_runs`); got != "1" {
		t.Errorf("%s rows of passes, want 1", got)
	}
}

func TestEveryGoesOnAfterAFailureAndNeverOverlaps(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatewaysim.Config{})
	c := e.config()
	c.DB = nil
	if _, err := reconcile.New(c); err == nil {
		t.Error("a reconciler without a database was made")
	}
	r := e.reconciler()
	e.exec(`RENAME TABLE reconcile_runs TO elsewhere`)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var errs []error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.Every(ctx, time.Microsecond, time.Microsecond, func(_ reconcile.Report, err error) {
			errs = append(errs, err) // no lock: passes of one loop come one after another
			if len(errs) == 1 {
				e.exec(`RENAME TABLE elsewhere TO reconcile_runs`)
			}
			if len(errs) == 3 {
				stop()
			}
		})
	}()
	<-ended
	if len(errs) != 3 || errs[0] == nil || errs[1] != nil || errs[2] != nil {
		t.Errorf("errors %v, want one and then none", errs)
	}
}

func TestNewKeepsTheFloors(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatewaysim.Config{})
	for name, change := range map[string]func(*reconcile.Config){
		"keys for less than a day":         func(c *reconcile.Config) { c.KeyRetention = 24*time.Hour - time.Second },
		"events for less than four days":   func(c *reconcile.Config) { c.EventRetention = 96*time.Hour - time.Second },
		"charged keys shorter than others": func(c *reconcile.Config) { c.ChargedKeyRetention = 23 * time.Hour },
		"a lease of no use":                func(c *reconcile.Config) { c.Lease = time.Millisecond },
		"a negative grace":                 func(c *reconcile.Config) { c.Grace = -1 },
		"a page that the PSP refuses":      func(c *reconcile.Config) { c.PageSize = 1001 },
		"a negative rate":                  func(c *reconcile.Config) { c.Rate = -1 },
	} {
		if _, err := reconcile.New(e.config(change)); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	rep := reconcile.Report{
		ID: "run_1", StartedAt: time.Date(2026, 11, 30, 6, 0, 0, 0, time.UTC), DurationMS: 1500, PSPDown: true,
		Stuck:     reconcile.Stuck{Seen: 9, OldestMS: 90_000, Charged: 1, Refused: 2, Abandoned: 1, Parked: 1, TooYoung: 1, Unknown: 2, Other: 1},
		Pending:   reconcile.Pending{Asked: 3, Changed: 1, Still: 1, Unknown: 1},
		Statement: reconcile.Statement{Read: 10, Written: 1, Raised: 2, Mark: time.Date(2026, 11, 30, 5, 50, 0, 0, time.UTC)},
		Events:    reconcile.Events{Applied: 1, Failed: 2, Died: 3, Waiting: 2, Dead: 3, ChargedAfterRefusal: 1},
		Purged:    reconcile.Purged{Keys: 4, Compacted: 7, Events: 5},
		Parked:    1, Found: 102, NeedsPerson: 107,
		Findings: []reconcile.Finding{{Kind: reconcile.Orphan, ChargeID: "ch_1", Detail: "not ours"}},
	}
	var b bytes.Buffer
	if err := rep.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	want := `run_1 at 2026-11-30T06:00:00Z, took 1.5s; THE PSP WAS DOWN, what needs it was left
stuck keys       9    charged 1, refused 2, abandoned 1, parked 1; left: too young 1, unknown 2, to others 1; oldest 1m30s
pending charges  3    changed 1, still pending 1, unknown 1
statement        10   written 1, raised 2; done up to 2026-11-30T05:50:00Z
events retried   6    applied 1, failed 2, set aside 3; waiting now 2
purged           9    keys 4, events 5; compacted 7
NEEDS A PERSON   107  parked keys 1, dead events 3, charged after refusal 1, found in this pass 102
  orphan: user 0, payment -, charge ch_1: not ours
  and 101 more, in the log
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}
