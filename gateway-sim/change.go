package gatewaysim

import (
	"net/http"
	"slices"
	"time"
)

// workRefund answers POST /charges/{id}/refund.
func (s *Sim) workRefund(c *call) answer {
	return s.changeTo(c, StatusRefunded, "not_refundable", StatusSucceeded)
}

// workVoid answers POST /admin/charges/{id}/cancel, which the contract doesn't know: the bank's own voiding of a charge.
func (s *Sim) workVoid(c *call) answer {
	return s.changeTo(c, StatusCanceled, "not_cancelable", StatusSucceeded, StatusPending)
}

// changeTo takes a charge to status, if it is in one of from, and makes the event. A charge that is there already is
// answered like one that has just come there; any other is answered 409 with refusal.
func (s *Sim) changeTo(c *call, status, refusal string, from ...string) answer {
	var e entry
	found, allowed := false, false
	err := s.store.update(func() (_ *entry, err error) {
		e, found, err = s.store.chargeByID(c.r.PathValue("id"))
		if !found || err != nil {
			return nil, err
		}
		if e.Charge.Status == status {
			allowed = true
			return nil, nil
		}
		if allowed = slices.Contains(from, e.Charge.Status); !allowed {
			return nil, nil
		}
		c.events = append(c.events, s.move(&e, status))
		return &e, nil
	})
	switch {
	case err != nil:
		c.events = nil
		return s.storageError(err)
	case !found:
		return chargeNotFound()
	case !allowed:
		return failure(http.StatusConflict, Error{Type: refusal, Message: "The charge is " + e.Charge.Status + "."})
	}
	return answer{status: http.StatusOK, body: *e.Charge}
}

// move gives the charge of e its new status, and e the event that tells of it.
func (s *Sim) move(e *entry, status string) newEvent {
	e.Charge.Status = status
	if status == StatusFailed {
		e.Charge.FailureCode = "expired"
	}
	now := Time{time.Now().UTC().Truncate(time.Microsecond)}
	if now.After(e.Charge.UpdatedAt.Time) {
		e.Charge.UpdatedAt = now
	}
	return s.addEvent(e)
}
