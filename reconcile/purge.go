package reconcile

import (
	"context"
	"slices"
	"time"

	"chargeonce/internal/idempotency"
	"chargeonce/internal/payment"
)

// inbox tries the events again that could not be applied.
func (p *pass) inbox(ctx context.Context) error {
	if p.cfg.DryRun {
		return nil // what waits is counted by takeStock
	}
	applied, failed, died, err := p.cfg.Inbox.RetryDue(ctx, p.cfg.Batch)
	p.rep.Events.Applied, p.rep.Events.Failed, p.rep.Events.Died = applied, failed, died
	if err != nil && ctx.Err() != nil {
		return nil // the pass was stopped, and the rest is due next time
	}
	return err
}

// purge deletes what is past its retention, a batch at a time.
func (p *pass) purge(ctx context.Context) error {
	if err := p.purgeRefusals(ctx); err != nil {
		return err
	}
	if err := p.purgeCharged(ctx); err != nil {
		return err
	}
	for !p.cfg.DryRun && ctx.Err() == nil {
		n, err := p.purgeEvents(ctx)
		p.rep.Purged.Events += n
		if err != nil || n < p.cfg.Batch {
			return err
		}
	}
	return nil
}

func (p *pass) purgeEvents(ctx context.Context) (int, error) {
	ctx, cancel := p.bound(ctx)
	defer cancel()
	return p.cfg.Inbox.Purge(ctx, p.cfg.EventRetention, p.cfg.Batch)
}

// purgeRefusals deletes the keys whose stored answer is a refusal, and compacts those that charged.
func (p *pass) purgeRefusals(ctx context.Context) error {
	return p.batches(ctx, purgeMark, p.purgeBatch)
}

// batches goes through the done keys, oldest first. A mark remembers up to where they have been looked through, since many stay.
func (p *pass) batches(ctx context.Context, name string, do func(context.Context, idempotency.DoneAfter) (int, idempotency.DoneAfter, error)) error {
	mark, err := p.mark(ctx, name)
	if err != nil {
		return err
	}
	after := idempotency.DoneAfter{CompletedAt: mark}
	for ctx.Err() == nil {
		n, next, err := do(ctx, after)
		if err != nil {
			return err
		}
		if err := p.moveMark(ctx, name, next.CompletedAt); err != nil {
			return err
		}
		if n < p.cfg.Batch {
			return nil
		}
		after = next
	}
	return nil
}

// purgeBatch looks through the next done keys, deletes the refusals among them, and returns how many it looked at.
func (p *pass) purgeBatch(ctx context.Context, after idempotency.DoneAfter) (int, idempotency.DoneAfter, error) {
	ctx, cancel := p.bound(ctx)
	defer cancel()
	rows, next, err := p.flow.Keys().Done(ctx, p.cfg.KeyRetention, after, p.cfg.Batch)
	if err != nil {
		return 0, after, err
	}
	var refused []idempotency.Record
	for _, r := range rows {
		if p.cfg.Renderer.Refused(r.Stored) {
			refused = append(refused, r)
		} else if err := p.compact(ctx, r); err != nil {
			return 0, after, err
		}
	}
	if refused, err = p.withoutMoney(ctx, refused); err != nil {
		return 0, after, err
	}
	err = p.delete(ctx, p.cfg.KeyRetention, refused)
	p.tell(Progress{Phase: phasePurge, Done: p.rep.Purged.Keys + p.rep.Purged.Compacted, Share: unknownShare})
	return len(rows), next, err
}

// compact drops the stored body of a key that charged; what it answers can be made from its payment.
func (p *pass) compact(ctx context.Context, r idempotency.Record) error {
	if p.cfg.DryRun {
		return nil
	}
	did, err := p.flow.Compact(ctx, r)
	if did {
		p.rep.Purged.Compacted++
	}
	return err
}

// purgeCharged deletes the keys that charged, once nobody can still send them. One that keeps its order from being paid again
// stays, as small as it has become.
func (p *pass) purgeCharged(ctx context.Context) error {
	return p.batches(ctx, purgeChargedMark, p.purgeOld)
}

func (p *pass) purgeOld(ctx context.Context, after idempotency.DoneAfter) (int, idempotency.DoneAfter, error) {
	ctx, cancel := p.bound(ctx)
	defer cancel()
	rows, next, err := p.flow.Keys().Done(ctx, p.cfg.ChargedKeyRetention, after, p.cfg.Batch)
	if err != nil {
		return 0, after, err
	}
	return len(rows), next, p.delete(ctx, p.cfg.ChargedKeyRetention, rows)
}

func (p *pass) delete(ctx context.Context, age time.Duration, keys []idempotency.Record) error {
	keys = slices.DeleteFunc(keys, func(k idempotency.Record) bool { return k.HoldsOrder })
	if p.cfg.DryRun {
		p.rep.Purged.Keys += len(keys)
		return nil
	}
	n, err := p.flow.Keys().DeleteDone(ctx, age, keys)
	p.rep.Purged.Keys += n
	return err
}

// withoutMoney leaves out the refused keys that a charge stands under after all: they show what went wrong until a person has
// made it good.
func (p *pass) withoutMoney(ctx context.Context, keys []idempotency.Record) ([]idempotency.Record, error) {
	charged, err := p.charged(ctx, keys)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(keys, func(k idempotency.Record) bool {
		return slices.ContainsFunc(charged, func(c payment.Payment) bool { return c.UserID == k.UserID && c.ID == k.PaymentID })
	}), nil
}
