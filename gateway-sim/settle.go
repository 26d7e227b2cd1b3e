package gatewaysim

import (
	"math/rand/v2"
	"time"

	bolt "go.etcd.io/bbolt"
)

const (
	settleGroup = 200             // pending charges settled per commit
	settleRetry = time.Second     // wait after the file failed, half to whole
	settleIdle  = 5 * time.Minute // look at the file this often though nobody called
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

// settleDue ends what is due and returns how long it is until it should be called again.
func (s *Sim) settleDue() time.Duration {
	due, err := s.nextDue()
	if err == nil && due > 0 {
		return due
	}
	var events []newEvent
	if err == nil {
		err = s.store.update(func(tx *bolt.Tx) error {
			return s.settle(tx, time.Now(), &events)
		})
	}
	if err != nil {
		if s.ctx.Err() == nil {
			s.log.Error("pending charges cannot settle", "error", err)
		}
		return settleRetry/2 + rand.N(settleRetry/2)
	}
	s.publish(events)
	return 0
}

// nextDue returns how long it is until the first pending charge is due.
func (s *Sim) nextDue() (wait time.Duration, err error) {
	wait = settleIdle
	err = s.store.view(func(tx *bolt.Tx) error {
		k, _ := tx.Bucket(bucketPending).Cursor().First()
		if k == nil {
			return nil
		}
		due, _, err := splitPendingKey(k)
		wait = min(wait, time.Until(due))
		return err
	})
	return wait, err
}

// settle ends the pending charges that are due at now, up to settleGroup. One that was voided meanwhile stays as it is.
func (s *Sim) settle(tx *bolt.Tx, now time.Time, events *[]newEvent) error {
	pending := tx.Bucket(bucketPending)
	for range settleGroup {
		k, status := pending.Cursor().First()
		if k == nil {
			return nil
		}
		due, seq, err := splitPendingKey(k)
		if err != nil {
			return err
		}
		if due.After(now) {
			return nil
		}
		rec, err := mustCharge(tx, seq)
		if err != nil {
			return err
		}
		if rec.Status == StatusPending {
			if err := s.move(tx, &rec, string(status), events); err != nil {
				return err
			}
		}
		if err := pending.Delete(k); err != nil {
			return err
		}
	}
	return nil
}
