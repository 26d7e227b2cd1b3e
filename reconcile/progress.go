package reconcile

import (
	"context"
	"fmt"
	"time"
)

// Progress says how far a pass is.
type Progress struct {
	// Phase is what it works on: "stuck keys", "pending charges", "statement", "inbox" or "purge".
	Phase string
	// Done is how many keys, charges or rows of the phase it has dealt with.
	Done int
	// Share is the part of the phase that is done, 0 to 1; negative when that cannot be told.
	Share float64
}

// unknownShare is the share of a phase whose end is not known.
const unknownShare = -1

const (
	countStuckSQL   = `SELECT COUNT(*) FROM idempotency_keys WHERE status = 'processing' AND locked_until <= ?`
	countPendingSQL = `SELECT COUNT(*) FROM payments WHERE status = 'pending' AND updated_at <= ?`
)

// total counts what a phase has before it. It counts only when somebody looks on; 0 otherwise.
func (p *pass) total(ctx context.Context, query string, until time.Time) (n int, err error) {
	if p.cfg.Progress == nil {
		return 0, nil
	}
	ctx, cancel := p.bound(ctx)
	defer cancel()
	if err := p.cfg.DB.QueryRowContext(ctx, query, until).Scan(&n); err != nil {
		return 0, fmt.Errorf("count what there is to do: %w", err)
	}
	return n, nil
}

// step tells that done of total are dealt with. What comes while a pass runs may make done the larger one.
func (p *pass) step(phase string, done, total int) {
	share := float64(unknownShare)
	if total > 0 {
		share = min(1, float64(done)/float64(total))
	}
	p.tell(Progress{Phase: phase, Done: done, Share: share})
}

func (p *pass) tell(now Progress) {
	if p.cfg.Progress != nil {
		p.cfg.Progress(now)
	}
}

// between is the share of a stretch of time that lies before at.
func between(from, at, to time.Time) float64 {
	if from.IsZero() || !from.Before(to) {
		return unknownShare
	}
	return min(1, max(0, float64(at.Sub(from))/float64(to.Sub(from))))
}
