package gatewaysim

import (
	"container/heap"
	"fmt"
	"sync"
	"time"
)

// span is where in the file a line is.
type span struct {
	at int64
	n  int
}

// index says where in the file things are. It holds no more than that of charges and verdicts, so that it stays small beside
// the file.
type index struct {
	mu      sync.RWMutex
	keys    map[string]span    // by idempotency key: the line with the verdict on it
	charges []chargePlace      // by sequence, from 1: charges[0] is charge 1
	events  []*eventPlace      // so too
	pending timeline[settling] // may hold charges that are pending no more
}

type chargePlace struct {
	line    span // which says how it is now
	pending bool
}

type eventPlace struct {
	line span // which made it
	eventRecord
}

// settling is a pending charge on the timeline.
type settling struct {
	seq uint64
	due time.Time
}

func (p settling) when() (time.Time, uint64) { return p.due, p.seq }

func newIndex() index { return index{keys: map[string]span{}} }

// note takes up the entry at p. Entries come in the order in which they are in the file.
func (x *index) note(e *entry, p span) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e.Verdict != nil {
		x.keys[e.Verdict.Key] = p
	}
	if e.Charge != nil {
		if err := x.noteCharge(e, p); err != nil {
			return err
		}
	}
	if e.Event != nil {
		return x.noteEvent(e, p)
	}
	return nil
}

func (x *index) noteCharge(e *entry, p span) error {
	place := chargePlace{line: p, pending: e.Charge.Status == StatusPending}
	switch n := uint64(len(x.charges)); {
	case place.pending && e.Settles == nil:
		return fmt.Errorf("gateway-sim: charge %d is pending for ever", e.Seq)
	case e.Seq == n+1:
		x.charges = append(x.charges, place)
		x.keys[e.Charge.IdempotencyKey] = p
	case e.Seq > 0 && e.Seq <= n:
		x.charges[e.Seq-1] = place
	default:
		return fmt.Errorf("gateway-sim: charge %d comes after %d charges", e.Seq, n)
	}
	if place.pending {
		heap.Push(&x.pending, settling{seq: e.Seq, due: e.Settles.At})
	}
	return nil
}

func (x *index) noteEvent(e *entry, p span) error {
	switch seq, n := e.Event.Seq, uint64(len(x.events)); {
	case seq == n+1 && e.Charge != nil:
		x.events = append(x.events, &eventPlace{line: p, eventRecord: *e.Event})
	case seq > 0 && seq <= n:
		x.events[seq-1].eventRecord = *e.Event
	default:
		return fmt.Errorf("gateway-sim: event %d, after %d events, has no charge or is out of its place", seq, n)
	}
	return nil
}

// keyAt returns the line with the verdict on key; ok is false when there is none.
func (x *index) keyAt(key string) (p span, ok bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	p, ok = x.keys[key]
	return p, ok
}

// chargeAt returns the line that says how the charge is now; ok is false when there is no such charge.
func (x *index) chargeAt(seq uint64) (p span, ok bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if seq == 0 || seq > uint64(len(x.charges)) {
		return p, false
	}
	return x.charges[seq-1].line, true
}

// eventAt returns the line that made the event, and how far its delivery is; ok is false when there is no such event.
func (x *index) eventAt(seq uint64) (p span, rec eventRecord, ok bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if seq == 0 || seq > uint64(len(x.events)) {
		return p, rec, false
	}
	place := x.events[seq-1]
	return place.line, place.eventRecord, true
}

// lastCharge and lastEvent return the highest sequence there is, 0 for none.

func (x *index) lastCharge() uint64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return uint64(len(x.charges))
}

func (x *index) lastEvent() uint64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return uint64(len(x.events))
}

// queued returns the events that still have to be delivered, in order of creation.
func (x *index) queued() []eventRecord {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var all []eventRecord
	for _, place := range x.events {
		if place.State == eventQueued {
			all = append(all, place.eventRecord)
		}
	}
	return all
}

// nextSettling returns the pending charge that is due first; ok is false when none is pending.
func (x *index) nextSettling() (next settling, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for len(x.pending) > 0 {
		next = x.pending[0]
		if x.charges[next.seq-1].pending {
			return next, true
		}
		heap.Pop(&x.pending)
	}
	return settling{}, false
}
