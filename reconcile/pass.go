package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"chargeonce/internal/mysql"
	"chargeonce/internal/payment"
	"chargeonce/internal/psp"
)

// storeTimeout bounds one statement or short transaction of a pass.
const storeTimeout = 10 * time.Second

const runSQL = `
	INSERT INTO reconcile_runs (id, started_at, duration_ms, needs_person, counts)
	VALUES (?, ?, ?, ?, ?)`

// The phases of a pass, in their order.
const (
	phaseStuck     = "stuck keys"
	phasePending   = "pending charges"
	phaseStatement = "statement"
	phaseInbox     = "inbox"
	phasePurge     = "purge"
)

// pass is one run through all phases.
type pass struct {
	*Reconciler
	// now is the database's clock at the start.
	now time.Time

	// For the progress: what there was to do, and where the statement begins to have something.
	stuckTotal, pendingTotal int
	statementFrom            time.Time

	mu  sync.Mutex
	rep Report
}

// Pass runs once through all phases and reports. When ctx ends it takes up nothing new, brings what it has begun to its end
// (bounded by Config.Lease), and reports what it did. An error says that the pass could not run, or a part of it not to its
// end; the report then holds what was done all the same.
func (r *Reconciler) Pass(ctx context.Context) (Report, error) {
	r.running.Lock()
	defer r.running.Unlock()
	r.gateway.reset()
	id, err := uuid.NewV7()
	if err != nil {
		return Report{}, fmt.Errorf("reconcile: mint an id: %w", err)
	}
	ctx, span := r.tracer.Start(ctx, "reconcile pass")
	p := &pass{Reconciler: r, rep: Report{ID: "run_" + id.String(), DryRun: r.cfg.DryRun, Findings: []Finding{}}}
	began := time.Now()
	err = p.run(ctx)
	p.rep.DurationMS = time.Since(began).Milliseconds()
	p.rep.PSPDown = r.gateway.down()
	p.rep.Stopped = ctx.Err() != nil
	if !r.cfg.DryRun && !mysql.Away(ctx, r.cfg.DB, err) {
		err = errors.Join(err, p.record(ctx))
	}
	if !r.cfg.DryRun {
		r.metrics.record(ctx, p.rep, err != nil)
	}
	endPass(span, p.rep, err)
	if err != nil {
		return p.rep, fmt.Errorf("reconcile: %w", err)
	}
	return p.rep, nil
}

// run goes through the phases. One that fails does not keep the others from their work, unless the database is away.
func (p *pass) run(ctx context.Context) error {
	if err := p.clock(ctx); err != nil {
		return err
	}
	var failed error
	for _, phase := range []struct {
		name string
		run  func(context.Context) error
	}{
		{phaseStuck, p.stuck},
		{phasePending, p.pending},
		{phaseStatement, p.statement},
		{phaseInbox, p.inbox},
		{phasePurge, p.purge},
	} {
		if ctx.Err() != nil {
			break
		}
		p.tell(Progress{Phase: phase.name, Share: unknownShare})
		if err := phase.run(ctx); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", phase.name, err))
			if mysql.Away(ctx, p.cfg.DB, err) {
				return failed
			}
		}
	}
	return errors.Join(failed, p.takeStock(ctx))
}

func (p *pass) clock(ctx context.Context) error {
	ctx, cancel := p.bound(ctx)
	defer cancel()
	if err := p.cfg.DB.QueryRowContext(ctx, `SELECT NOW(3)`).Scan(&p.now); err != nil {
		return fmt.Errorf("read the database's clock: %w", err)
	}
	p.rep.StartedAt = p.now
	return nil
}

// takeStock counts what waits for a person, whichever pass found it.
func (p *pass) takeStock(ctx context.Context) error {
	ctx, cancel := p.bound(ctx)
	defer cancel()
	var err error
	if p.rep.Parked, err = p.flow.Keys().CountParked(ctx); err != nil {
		return err
	}
	e := &p.rep.Events
	if e.Waiting, e.Dead, e.ChargedAfterRefusal, err = p.cfg.Inbox.Backlog(ctx); err != nil {
		return err
	}
	p.rep.NeedsPerson = p.rep.Parked + e.Dead + e.ChargedAfterRefusal + p.rep.Found
	return nil
}

func (p *pass) record(ctx context.Context) error {
	counts, err := json.Marshal(p.rep)
	if err != nil {
		return fmt.Errorf("render the report: %w", err)
	}
	ctx, cancel := p.bound(ctx)
	defer cancel()
	_, err = p.cfg.DB.ExecContext(ctx, runSQL, p.rep.ID, p.rep.StartedAt, p.rep.DurationMS, p.rep.NeedsPerson, string(counts))
	if mysql.Duplicate(err) {
		return nil // the driver sent it again after a lost answer
	}
	if err != nil {
		return fmt.Errorf("record the pass: %w", err)
	}
	return nil
}

// bound gives one step a context that a stop of the pass does not cut in the middle.
func (p *pass) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
}

// over reports whether nothing more that needs the PSP may be taken up.
func (p *pass) over(ctx context.Context) bool { return ctx.Err() != nil || p.gateway.down() }

// each runs do for every item, Config.Concurrency at once, until the pass is stopped, the PSP is down or do fails. An item that was
// begun runs to its end, within the time of a lease.
func each[T any](ctx context.Context, p *pass, items []T, do func(context.Context, T) error) error {
	var workers errgroup.Group
	workers.SetLimit(p.cfg.Concurrency)
	enough, stop := context.WithCancel(ctx)
	defer stop()
	for _, item := range items {
		if p.over(enough) {
			break
		}
		workers.Go(func() error {
			if p.over(enough) { // waited for its turn meanwhile
				return nil
			}
			itemCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.cfg.Lease)
			defer cancel()
			err := do(itemCtx, item)
			if err != nil {
				stop()
			}
			return err
		})
	}
	return workers.Wait()
}

// count changes the report; several goroutines do.
func (p *pass) count(change func(*Report)) { p.counted(change) }

// counted changes the report and returns what it is then.
func (p *pass) counted(change func(*Report)) Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.rep)
	return p.rep
}

// find reports something for a person, at once in the log and at the end in the report.
func (p *pass) find(ctx context.Context, f Finding) {
	p.log.ErrorContext(ctx, "reconciliation found what needs a person", "kind", string(f.Kind), "user_id", f.UserID,
		"payment_id", f.PaymentID, "charge_id", f.ChargeID, "detail", f.Detail)
	p.count(func(r *Report) {
		r.Found++
		if len(r.Findings) < maxFindings {
			r.Findings = append(r.Findings, f)
		}
	})
}

// apply writes what the PSP says of a charge, as its webhook would. It reports findings itself; ok says that
// there was none that kept it from being written. The error is the database's.
func (p *pass) apply(ctx context.Context, c psp.Charge) (did payment.Applied, ok bool, err error) {
	if p.cfg.DryRun {
		return payment.Applied{Changed: true}, true, nil
	}
	err = mysql.WithTx(ctx, p.cfg.DB, func(tx mysql.Querier) error {
		var err error
		did, err = p.flow.Apply(ctx, tx, c)
		return err
	})
	var differs *payment.DiffersError
	switch {
	case errors.Is(err, payment.ErrNotOurs):
		p.find(ctx, findingOf(Orphan, c, err.Error()))
	case errors.As(err, &differs):
		p.find(ctx, findingOf(Differs, c, err.Error()))
	case err != nil:
		return did, false, err
	case did.ChargedAfterRefusal:
		p.find(ctx, findingOf(ChargedAfterRefusal, c, "the key's stored answer is a refusal"))
		return did, true, nil
	default:
		return did, true, nil
	}
	return payment.Applied{}, false, nil
}

func findingOf(k Kind, c psp.Charge, detail string) Finding {
	return Finding{Kind: k, UserID: c.Metadata.UserID, PaymentID: c.Metadata.PaymentID, ChargeID: c.ID, Detail: detail}
}
