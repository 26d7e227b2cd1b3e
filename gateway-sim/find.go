package gatewaysim

import (
	"encoding/json"
	"fmt"
)

// verdict reads the verdict on key: the entry that made the charge, or that says why there is none. ok is false when there was
// never one.
func (s *store) verdict(key string) (e entry, ok bool, err error) {
	p, ok := s.keyAt(key)
	if !ok {
		return e, false, nil
	}
	e, err = s.read(p)
	return e, err == nil, err
}

// charge reads a charge as it is now; ok is false when there is none.
func (s *store) charge(seq uint64) (e entry, ok bool, err error) {
	p, ok := s.chargeAt(seq)
	if !ok {
		return e, false, nil
	}
	e, err = s.read(p)
	return e, err == nil, err
}

// chargeByID reads a charge by its id.
func (s *store) chargeByID(id string) (e entry, ok bool, err error) {
	seq, ok := s.parseID(chargePrefix, id)
	if !ok {
		return e, false, nil
	}
	return s.charge(seq)
}

// mustCharge reads a charge that there is.
func (s *store) mustCharge(seq uint64) (entry, error) {
	e, ok, err := s.charge(seq)
	if err == nil && !ok {
		err = fmt.Errorf("gateway-sim: charge %d is missing", seq)
	}
	return e, err
}

// event is an event, the exact bytes that are delivered for it, and how far its delivery has come.
type event struct {
	ID          string          `json:"id"`
	Type        string          `json:"type"`
	ChargeID    string          `json:"charge_id"`
	Traceparent string          `json:"traceparent,omitempty"`
	Payload     json.RawMessage `json:"payload"`
	eventRecord
}

// event reads an event; ok is false when there is none.
func (s *store) event(seq uint64) (ev event, ok bool, err error) {
	p, rec, ok := s.eventAt(seq)
	if !ok {
		return ev, false, nil
	}
	e, err := s.read(p)
	if err != nil {
		return ev, false, err
	}
	ev = event{
		ID: s.newID(eventPrefix, seq), Type: "charge." + e.Charge.Status, ChargeID: e.Charge.ID,
		Traceparent: e.Traceparent, eventRecord: rec,
	}
	ev.Payload, err = json.Marshal(eventBody{Type: ev.Type, Timestamp: e.Charge.UpdatedAt, Data: eventData{*e.Charge}})
	return ev, err == nil, err
}
