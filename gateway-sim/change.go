package gatewaysim

import (
	"net/http"
	"time"

	bolt "go.etcd.io/bbolt"
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
	var rec chargeRecord
	found, allowed := false, false
	err := s.store.update(func(tx *bolt.Tx) (err error) {
		rec, found, err = s.store.chargeByID(tx, c.r.PathValue("id"))
		if !found || err != nil || rec.Status == status {
			allowed = rec.Status == status
			return err
		}
		for _, old := range from {
			allowed = allowed || rec.Status == old
		}
		if !allowed {
			return nil
		}
		return s.move(tx, &rec, status, &c.events)
	})
	switch {
	case err != nil:
		c.events = nil
		return s.storageError(err)
	case !found:
		return chargeNotFound()
	case !allowed:
		return failure(http.StatusConflict, Error{Type: refusal, Message: "The charge is " + rec.Status + "."})
	}
	return answer{status: http.StatusOK, body: rec.Charge}
}

// move writes a charge with its new status, and its event.
func (s *Sim) move(tx *bolt.Tx, rec *chargeRecord, status string, events *[]newEvent) error {
	rec.Status = status
	if status == StatusFailed {
		rec.FailureCode = "expired"
	}
	now := Time{time.Now().UTC().Truncate(time.Microsecond)}
	if now.After(rec.UpdatedAt.Time) {
		rec.UpdatedAt = now
	}
	if err := put(tx, bucketCharges, seqKey(rec.Seq), *rec); err != nil {
		return err
	}
	event, err := s.addEvent(tx, *rec)
	*events = append(*events, event)
	return err
}
