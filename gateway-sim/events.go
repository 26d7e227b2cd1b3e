package gatewaysim

import "time"

// newEvent is an event that an update has made, on its way from the file to the dispatcher.
type newEvent struct {
	seq  uint64
	plan webhookPlan
}

// addEvent puts the event that says what the charge of e has become into e, queued unless a fault drops it. Only a decide may
// call it.
func (s *Sim) addEvent(e *entry) newEvent {
	made := newEvent{seq: s.store.lastEvent() + 1, plan: s.faults.Load().planEvent(time.Now())}
	e.Event = &eventRecord{Seq: made.seq, State: eventQueued, NextAt: made.plan.first}
	if made.plan.drop {
		e.Event.State = eventDropped
	}
	return made
}

// publish hands events that are in the file to the dispatcher. An event that leads is delivered before publish returns.
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
