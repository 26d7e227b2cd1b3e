package psp

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errBulkheadFull: every slot stayed taken.
var errBulkheadFull = errors.New("bulkhead full")

// bulkhead bounds how many calls are under way, so that a PSP that hangs holds no more of this process than that.
type bulkhead struct {
	slots chan struct{}
	wait  time.Duration
}

func newBulkhead(c Config) *bulkhead {
	return &bulkhead{slots: make(chan struct{}, c.Slots), wait: c.SlotWait}
}

// acquire takes a slot, waiting a short time for one and never past ctx. It returns errBulkheadFull, or ctx's error.
func (b *bulkhead) acquire(ctx context.Context) error {
	select {
	case b.slots <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(b.wait)
	defer timer.Stop()
	select {
	case b.slots <- struct{}{}:
		return nil
	case <-timer.C:
		return fmt.Errorf("%w: %d slots taken for %v", errBulkheadFull, cap(b.slots), b.wait)
	case <-ctx.Done():
		return fmt.Errorf("waiting for a slot: %w", ctx.Err())
	}
}

func (b *bulkhead) release() { <-b.slots }

// inUse counts the calls under way.
func (b *bulkhead) inUse() int { return len(b.slots) }
