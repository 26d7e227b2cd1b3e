package gatewaysim

import (
	"encoding/json"
	"time"

	bolt "go.etcd.io/bbolt"
)

// newEvent is an event that an update has made, on its way from the file to the dispatcher.
type newEvent struct {
	seq  uint64
	plan webhookPlan
}

// addEvent writes the event that says what rec's status is now, and queues it unless a fault drops it.
func (s *Sim) addEvent(tx *bolt.Tx, rec chargeRecord) (newEvent, error) {
	kind := "charge." + rec.Status
	payload, err := json.Marshal(eventBody{Type: kind, Timestamp: rec.UpdatedAt, Data: eventData{rec.Charge}})
	if err != nil {
		return newEvent{}, err
	}
	seq, err := tx.Bucket(bucketEvents).NextSequence()
	if err != nil {
		return newEvent{}, err
	}
	event := newEvent{seq: seq, plan: s.faults.Load().planEvent(time.Now())}
	state := eventQueued
	if event.plan.drop {
		state = eventDropped
	}
	err = s.putEvent(tx, seq, eventRecord{
		ID: s.store.newID(eventPrefix, seq), Type: kind, ChargeID: rec.ID, Traceparent: rec.Traceparent,
		Payload: payload, State: state, NextAt: event.plan.first,
	})
	return event, err
}

// putEvent writes an event and keeps the queue in step with its state.
func (s *Sim) putEvent(tx *bolt.Tx, seq uint64, rec eventRecord) error {
	if err := put(tx, bucketEvents, seqKey(seq), rec); err != nil {
		return err
	}
	if rec.State == eventQueued {
		return tx.Bucket(bucketQueue).Put(seqKey(seq), nil)
	}
	return tx.Bucket(bucketQueue).Delete(seqKey(seq))
}

// readEvent reads an event; ok is false when there is none.
func (s *Sim) readEvent(seq uint64) (rec eventRecord, ok bool, err error) {
	err = s.store.view(func(tx *bolt.Tx) (err error) {
		rec, ok, err = get[eventRecord](tx, bucketEvents, seqKey(seq))
		return err
	})
	return rec, ok, err
}

// publish hands committed events to the dispatcher. An event that leads is delivered before publish returns.
func (s *Sim) publish(events []newEvent) {
	for _, e := range events {
		s.stats.eventMade(e.plan.drop)
		if e.plan.drop {
			continue
		}
		for _, at := range e.plan.extra {
			s.webhooks.push(delivery{seq: e.seq, at: at, extra: true})
		}
		if e.plan.early {
			s.webhooks.deliver(delivery{seq: e.seq})
			continue
		}
		s.webhooks.push(delivery{seq: e.seq, at: e.plan.first})
	}
}
