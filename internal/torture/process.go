package torture

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"chargeonce/internal/rig"
)

// process is a process that is ended and comes back, on the address that it had.
type process struct {
	name string
	// start starts it and returns when it is ready. It may return a process along with an error.
	start func(context.Context) (*rig.Process, error)

	// busy is held by the fault that is dealing with it.
	busy sync.Mutex

	mu  sync.Mutex
	now *rig.Process
}

// comeBack bounds bringing a process back: what it needs may be away for a while too.
const comeBack = 60 * time.Second

func (p *process) running() *rig.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// alive reports whether it runs.
func (p *process) alive() bool {
	now := p.running()
	if now == nil {
		return false
	}
	select {
	case <-now.Done():
		return false
	default:
		return true
	}
}

// bring starts it, and again if it fails because of what else is broken now, until ctx ends.
func (p *process) bring(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, comeBack)
	defer cancel()
	for {
		err := p.once(ctx)
		if err == nil {
			return nil
		}
		if pause(ctx, 200*time.Millisecond) != nil {
			return fmt.Errorf("torture: %s does not come back: %w", p.name, err)
		}
	}
}

func (p *process) once(ctx context.Context) error {
	now, err := p.start(ctx)
	if err != nil && now != nil {
		return errors.Join(err, now.Kill())
	}
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = now
	return nil
}

// kill ends it at once.
func (p *process) kill() error {
	if now := p.running(); now != nil {
		return now.Kill()
	}
	return nil
}

// stop asks it to end (SIGTERM). To end in another way than with exit status 0, or not within the bound, is a violation, which
// the error says.
func (p *process) stop(ctx context.Context, bound time.Duration) error {
	now := p.running()
	if now == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	code, err := now.Stop(ctx)
	if err == nil && code != 0 {
		err = fmt.Errorf("%s ended with exit status %d after SIGTERM", p.name, code)
	}
	return err
}

// pause waits for d, or until ctx ends, which is its error.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
