package membership

import (
	"context"
	"slices"
	"sync"
	"time"
)

// ledger is the clock of a cluster, and what its nodes say of each other.
type ledger struct {
	nodes int
	known chan struct{} // closed when the first node has crashed and all survivors call it dead

	mu       sync.Mutex
	began    time.Time
	deadAt   time.Duration // when the first node crashed; 0: it lives
	knows    map[int]bool  // who has called the first node dead
	verdicts []Verdict
}

func newLedger(nodes int) *ledger {
	return &ledger{nodes: nodes, known: make(chan struct{}), began: time.Now(), knows: map[int]bool{}}
}

// start begins the script: it is zero o'clock, and what was said until now is forgotten.
func (l *ledger) start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.began, l.verdicts = time.Now(), nil
}

// now returns the time of the script.
func (l *ledger) now() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.began)
}

// crashed notes that the first node dies now.
func (l *ledger) crashed() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deadAt = time.Since(l.began)
	l.tellIfKnown()
	return l.deadAt
}

// dead notes a verdict.
func (l *ledger) dead(by, about int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.verdicts = append(l.verdicts, Verdict{By: by, About: about, At: time.Since(l.began)})
	if about == 0 && !l.knows[by] {
		l.knows[by] = true
		l.tellIfKnown()
	}
}

func (l *ledger) tellIfKnown() {
	if l.deadAt > 0 && len(l.knows) == l.nodes-1 {
		close(l.known)
	}
}

func (l *ledger) list() []Verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.verdicts)
}

// until waits for a time of the script.
func (l *ledger) until(ctx context.Context, at time.Duration) error {
	return wait(ctx, at-l.now(), nil)
}

// untilKnown waits for a time of the script, or until all survivors know of the crash.
func (l *ledger) untilKnown(ctx context.Context, at time.Duration) error {
	return wait(ctx, at-l.now(), l.known)
}

// pulse starts to measure how late a goroutine is that wants to run often. The function that it returns ends that, and says how
// late it was at most.
func (l *ledger) pulse() func() time.Duration {
	const often = 5 * time.Millisecond
	stop, ended := make(chan struct{}), make(chan struct{})
	var late time.Duration
	go func() {
		defer close(ended)
		timer := time.NewTimer(often)
		defer timer.Stop()
		for due := l.now() + often; ; due = l.now() + often {
			select {
			case <-timer.C:
				late = max(late, l.now()-due)
				timer.Reset(often)
			case <-stop:
				return
			}
		}
	}()
	return func() time.Duration {
		close(stop)
		<-ended
		return late
	}
}

// wait waits for a while, or for early to be closed. The error is the context's.
func wait(ctx context.Context, d time.Duration, early <-chan struct{}) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-early:
	case <-ctx.Done():
	}
	return ctx.Err()
}
