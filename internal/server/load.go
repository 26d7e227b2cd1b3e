package server

import (
	"errors"
	"sync/atomic"

	paymentsv1 "chargeonce/api/payments/v1"
)

// load caps the requests that are being worked on, over both faces together. Past what a server can do, every request more makes
// all of them late; the one that is refused at once, before it has claimed anything, costs next to nothing and may come again.
type load struct {
	most     int64
	inFlight atomic.Int64
}

var errFull = errors.New("as many requests are in flight as this server takes")

// enter gives the request a slot, or a *problem when there is none left.
func (l *load) enter() (*slot, error) {
	if l.inFlight.Add(1) > l.most {
		l.inFlight.Add(-1)
		return nil, overloaded()
	}
	s := &slot{load: l}
	s.users.Store(1)
	return s, nil
}

// full reports whether enter would fail now, without taking a slot.
func (l *load) full() bool { return l.inFlight.Load() >= l.most }

func overloaded() *problem {
	p := retryLater(paymentsv1.Reason_OVERLOADED, 0, errFull)
	p.detail = "This server has as many requests in flight as it takes."
	return p
}

// slot is one request's place in the load. It is free again once the request has ended, and so has what goes on after its client
// has left: clients that hang up early must not make room for more work than there is.
type slot struct {
	load  *load
	users atomic.Int64
}

// keep has the slot stay taken until leave is called once more.
func (s *slot) keep() {
	if s != nil {
		s.users.Add(1)
	}
}

func (s *slot) leave() {
	if s != nil && s.users.Add(-1) == 0 {
		s.load.inFlight.Add(-1)
	}
}
