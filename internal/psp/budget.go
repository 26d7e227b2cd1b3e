package psp

import "sync/atomic"

// tokenTenths is one retry's price. The bucket counts in tenths of a token, so that +0.1 is exact.
const tokenTenths = 10

// budget is the retry budget: a token bucket that keeps retries a small share of the calls that succeed. Without it a PSP that
// is down gets every request MaxAttempts times, when it can bear that least.
type budget struct {
	off        bool
	max        int64 // tenths of a token
	perSuccess int64 // tenths of a token
	tenths     atomic.Int64
}

func newBudget(c Config) *budget {
	b := &budget{off: c.BudgetOff, max: int64(c.BudgetTokens) * tokenTenths, perSuccess: int64(c.BudgetTenthsPerSuccess)}
	b.tenths.Store(b.max)
	return b
}

// take spends a token on a retry, or reports that there is none.
func (b *budget) take() bool {
	if b.off {
		return true
	}
	for {
		have := b.tenths.Load()
		if have < tokenTenths {
			return false
		}
		if b.tenths.CompareAndSwap(have, have-tokenTenths) {
			return true
		}
	}
}

// earn gives back what a success is worth, up to a full bucket.
func (b *budget) earn() {
	for {
		have := b.tenths.Load()
		if have >= b.max || b.tenths.CompareAndSwap(have, min(b.max, have+b.perSuccess)) {
			return
		}
	}
}

// left is what the bucket holds, in tenths of a token.
func (b *budget) left() int64 { return b.tenths.Load() }
