package payment

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"chargeonce/internal/idempotency"
	"chargeonce/internal/mysql"
)

// together finishes what waits at the same time in one transaction, so that one commit serves them all. It does only what needs no
// look at anything: a payment that is new, of a lease that is held. Whatever else there is, the batch is rolled back, and each
// of its requests finishes by itself, by the ordinary way. So the semantics are the ordinary way's.
type together struct {
	flow    *Flow
	timeout time.Duration
	queue   mysql.Coalescer[waitingFinish]
}

type waitingFinish struct {
	idempotency.Finished
	payment Payment
	done    chan bool // has room for the one answer
}

// The numbers that were measured to serve best: a batch is what waits while the one before it commits.
const (
	togetherWorkers = 2
	togetherMost    = 128
)

// Coalesce has claims and finishes that wait at the same time share a statement and a commit: for a busy server. It is to be called
// before the flow is used.
func (f *Flow) Coalesce() {
	// Half of the time that a step has, so that the other half is left for the ordinary way.
	timeout := f.timing.StoreTimeout / 2
	f.keys = idempotency.NewCoalescingStore(f.db, timeout)
	t := &together{flow: f, timeout: timeout}
	t.queue = mysql.Coalescer[waitingFinish]{Workers: togetherWorkers, Most: togetherMost, Run: t.run}
	f.together = t
}

// finish has the lease finished with those that wait, and reports whether that is committed. If not, nothing is known: the ordinary
// finish has to be run, which settles it.
func (t *together) finish(ctx context.Context, l idempotency.Lease, a idempotency.Stored, p Payment) bool {
	w := waitingFinish{Finished: idempotency.Finished{Lease: l, Stored: a}, payment: p, done: make(chan bool, 1)}
	t.queue.Add(w)
	select {
	case ok := <-w.done:
		return ok
	case <-ctx.Done():
		return false
	}
}

func (t *together) run(batch []waitingFinish) {
	ctx, cancel := context.WithTimeout(context.Background(), t.timeout)
	defer cancel()
	// In the order of the primary key, so that two batches that meet wait for one another and do not deadlock.
	slices.SortFunc(batch, func(a, b waitingFinish) int {
		return cmp.Or(cmp.Compare(a.Lease.UserID, b.Lease.UserID), cmp.Compare(a.Lease.Key.String(), b.Lease.Key.String()))
	})
	err := mysql.WithTx(ctx, t.flow.db, func(tx mysql.Querier) error {
		all := make([]idempotency.Finished, len(batch))
		payments := make([]any, 0, 9*len(batch))
		for i, w := range batch {
			all[i] = w.Finished
			payments = append(payments, w.payment.row()...)
		}
		if err := t.flow.keys.FinishAll(ctx, tx, all); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, insertInto+strings.Repeat(insertRow+", ", len(batch)-1)+insertRow, payments...); err != nil {
			return fmt.Errorf("insert %d payments: %w", len(batch), err)
		}
		return nil
	})
	if err != nil {
		t.flow.log.DebugContext(ctx, "finishes go one at a time", "finishes", len(batch), "error", err)
	}
	for _, w := range batch {
		w.done <- err == nil
	}
}
