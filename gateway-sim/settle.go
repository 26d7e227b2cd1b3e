package gatewaysim

import (
	"math/rand/v2"
	"time"
)

const (
	settleRetry = time.Second     // wait after the file failed, half to whole
	settleIdle  = 5 * time.Minute // look at what is pending this often though nobody called
)

// wakeSettler tells the settler that there may be a new pending charge.
func (s *Sim) wakeSettler() {
	select {
	case s.settleWake <- struct{}{}:
	default:
	}
}

// settleLoop ends pending charges when they are due. What is due when is in the file, so a new process goes on where the
// last one was killed.
func (s *Sim) settleLoop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.settleWake:
		case <-s.ctx.Done():
			return
		}
		timer.Reset(s.settleDue())
	}
}

// settleDue ends one charge that is due, if there is one, and returns how long it is until it should be called again.
func (s *Sim) settleDue() time.Duration {
	next, ok := s.store.nextSettling()
	if !ok {
		return settleIdle
	}
	if wait := time.Until(next.due); wait > 0 {
		return min(wait, settleIdle)
	}
	var events []newEvent
	err := s.store.update(func() (*entry, error) {
		e, err := s.store.mustCharge(next.seq)
		if err != nil || e.Charge.Status != StatusPending { // voided a moment ago
			return nil, err
		}
		events = append(events, s.move(&e, e.Settles.To))
		return &e, nil
	})
	if err != nil {
		if s.ctx.Err() == nil {
			s.log.Error("a pending charge cannot settle", "error", err)
		}
		return settleRetry/2 + rand.N(settleRetry/2)
	}
	s.publish(events)
	return 0
}
