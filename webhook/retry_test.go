package webhook_test

import (
	"database/sql"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chargeonce/webhook"
)

// keepOne leaves an event in the inbox that fails while the key's amount is wrong, and returns how to mend that.
func (e *env) keepOne(id string) (p purchase, mend func()) {
	e.t.Helper()
	p = e.claim()
	e.exec(`UPDATE idempotency_keys SET amount = 1 WHERE payment_id = ?`, p.paymentID)
	if code, got := e.deliver(id, p.event(e.t, "succeeded")); code != 200 || got != `{"result":"kept"}` {
		e.t.Fatalf("%d %s", code, got)
	}
	return p, func() { e.exec(`UPDATE idempotency_keys SET amount = 1999 WHERE payment_id = ?`, p.paymentID) }
}

func TestKeptEventIsAppliedOnceItCanBe(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p, mend := e.keepOne("evt_1")
	mend()
	if got := e.retry(); got != [3]int{} {
		t.Errorf("retried before its time: %v", got)
	}
	e.due("evt_1")
	if got := e.retry(); got != [3]int{1, 0, 0} {
		t.Errorf("retry counted %v, want one applied", got)
	}
	if diff := cmp.Diff(row{User: 42, State: "applied", Attempts: 2}, e.row("evt_1")); diff != "" {
		t.Errorf("inbox (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(p.paid("succeeded"), e.payments(p.chargeID)); diff != "" {
		t.Errorf("payments (-want +got):\n%s", diff)
	}
}

func TestPoisonEventIsSetAsideAndReplayedByAPerson(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p, mend := e.keepOne("evt_1")
	for _, want := range [][3]int{{0, 1, 0}, {0, 0, 1}, {}} {
		e.due("evt_1")
		if got := e.retry(); got != want {
			t.Errorf("retry counted %v, want %v", got, want)
		}
	}
	if got := e.row("evt_1"); got.State != "dead" || got.Attempts != 3 || got.Waits {
		t.Errorf("inbox: %+v, want dead after 3 attempts", got)
	}
	if got, err := e.inbox.Replay(t.Context(), "evt_1"); err != nil || got != webhook.Dead {
		t.Errorf("replay before the cause is mended: %s %v", got, err)
	}
	mend()
	if got, err := e.inbox.Replay(t.Context(), "evt_1"); err != nil || got != webhook.Applied {
		t.Errorf("replay: %s %v", got, err)
	}
	if diff := cmp.Diff(p.paid("succeeded"), e.payments(p.chargeID)); diff != "" {
		t.Errorf("payments (-want +got):\n%s", diff)
	}
	if got, err := e.inbox.Replay(t.Context(), "evt_1"); err != nil || got != webhook.Applied {
		t.Errorf("replay of an applied one: %s %v", got, err)
	}
	if _, err := e.inbox.Replay(t.Context(), "evt_none"); !errors.Is(err, sql.ErrNoRows) {
		t.Errorf("replay of an unknown one: %v", err)
	}
}

func TestIgnoredEventIsNoLongerCounted(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.keepOne("evt_1")
	if done, err := e.inbox.Ignore(t.Context(), "evt_1"); err != nil || !done {
		t.Errorf("ignore: %v %v", done, err)
	}
	failed, dead, charged, err := e.inbox.Backlog(t.Context())
	if got := [3]int{failed, dead, charged}; err != nil || got != [3]int{} {
		t.Errorf("backlog %v (%v)", got, err)
	}
	if done, err := e.inbox.Ignore(t.Context(), "evt_1"); err != nil || done {
		t.Errorf("ignore again: %v %v", done, err)
	}
}

func TestTwoRetriesAtOnceApplyAnEventOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for _, id := range []string{"evt_1", "evt_2", "evt_3", "evt_4"} {
		_, mend := e.keepOne(id)
		mend()
		e.due(id)
	}
	var both sync.WaitGroup
	var counts [2][3]int
	for i := range counts {
		both.Go(func() { counts[i] = e.retry() })
	}
	both.Wait()
	if got := counts[0][0] + counts[1][0]; got != 4 {
		t.Errorf("applied %v, 4 in all were due", counts)
	}
	for _, id := range []string{"evt_1", "evt_2", "evt_3", "evt_4"} {
		if got := e.row(id); got.Attempts != 2 {
			t.Errorf("%s: %+v, want 2 attempts", id, got)
		}
	}
}

func TestPurgeKeepsWhatIsYoungOrNotDoneWith(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.keepOne("evt_failed")
	e.keepOne("evt_dead")
	e.exec(`UPDATE webhook_events SET state = 'dead', next_attempt_at = NULL WHERE event_id = 'evt_dead'`)
	for _, id := range []string{"evt_old", "evt_young"} {
		if code, got := e.deliver(id, body(t, "test.unknown", id)); code != 200 {
			t.Fatalf("%d %s", code, got)
		}
	}
	e.exec(`UPDATE webhook_events SET received_at = NOW(3) - INTERVAL 5 DAY WHERE event_id <> 'evt_young'`)
	if n, err := e.inbox.Purge(t.Context(), webhook.MinRetention, 10); err != nil || n != 1 {
		t.Errorf("purged %d (%v), want 1", n, err)
	}
	for _, id := range []string{"evt_failed", "evt_dead", "evt_young"} {
		e.row(id)
	}
	if _, err := e.inbox.Purge(t.Context(), webhook.MinRetention-time.Second, 10); err == nil {
		t.Error("a retention below the least was taken")
	}
}
