package gatewaysim

import (
	"encoding/json"
	"net/http"
)

// Charges returns every charge, in order of creation.
func (s *Sim) Charges() ([]Charge, error) {
	charges := []Charge{}
	for seq, last := uint64(1), s.store.lastCharge(); seq <= last; seq++ {
		e, err := s.store.mustCharge(seq)
		if err != nil {
			return nil, err
		}
		charges = append(charges, *e.Charge)
	}
	return charges, nil
}

// getLedger streams every charge, one JSON object per line, in order of creation.
func (s *Sim) getLedger(w http.ResponseWriter, _ *http.Request) {
	s.stream(w, s.store.lastCharge(), func(seq uint64) (any, error) {
		e, err := s.store.mustCharge(seq)
		return e.Charge, err
	})
}

// getEvents streams every event and the state of its delivery, one JSON object per line, in order of creation.
func (s *Sim) getEvents(w http.ResponseWriter, _ *http.Request) {
	s.stream(w, s.store.lastEvent(), func(seq uint64) (any, error) {
		ev, _, err := s.store.event(seq)
		return ev, err
	})
}

// stream writes a line for each sequence from 1 to last.
func (s *Sim) stream(w http.ResponseWriter, last uint64, read func(seq uint64) (any, error)) {
	w.Header().Set("Content-Type", "application/jsonl")
	lines := json.NewEncoder(w)
	for seq := uint64(1); seq <= last; seq++ {
		line, err := read(seq)
		if err == nil {
			err = boundWriting(w, writeTimeout)
		}
		if err == nil {
			err = lines.Encode(line)
		}
		if err != nil {
			// The status is out; only a connection that breaks can still say that lines are missing.
			s.log.Error("a listing was cut short", "error", err)
			panic(http.ErrAbortHandler)
		}
	}
}
