package gatewaysim

import (
	"encoding/json"
	"net/http"
	"time"

	bolt "go.etcd.io/bbolt"
)

// chargeRequest is the body of a POST /charges.
type chargeRequest struct {
	Amount        int64             `json:"amount"`
	Currency      string            `json:"currency"`
	PaymentMethod string            `json:"payment_method"`
	Description   string            `json:"description"`
	Metadata      map[string]string `json:"metadata"`
}

const maxMetadata = 16

// problem says what makes the request malformed, if anything.
func (r chargeRequest) problem() string {
	switch {
	case r.Amount <= 0:
		return "amount must be a positive integer, in minor units."
	case !isCurrency(r.Currency):
		return "currency must be a code of ISO 4217, such as EUR."
	case r.PaymentMethod == "":
		return "payment_method is missing."
	case len(r.Metadata) > maxMetadata:
		return "metadata has more than 16 members."
	}
	return ""
}

func isCurrency(s string) bool {
	if len(s) != 3 {
		return false
	}
	for _, c := range []byte(s) {
		if c < 'A' || c > 'Z' {
			return false
		}
	}
	return true
}

// isKey reports whether s can be an idempotency key: 1 to 255 printable ASCII characters.
func isKey(s string) bool {
	if s == "" || len(s) > 255 {
		return false
	}
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// prepareCharge checks a POST /charges and claims its key, unless there is a verdict on it already.
func (s *Sim) prepareCharge(c *call) (answer, bool) {
	keys := c.r.Header.Values("Idempotency-Key")
	if len(keys) != 1 || !isKey(keys[0]) {
		return invalidRequest("One Idempotency-Key of 1 to 255 printable ASCII characters is required."), true
	}
	if err := json.Unmarshal(c.body, &c.charge); err != nil {
		return invalidRequest("The body is not a charge: " + err.Error()), true
	}
	if problem := c.charge.problem(); problem != "" {
		return invalidRequest(problem), true
	}
	if c.charge.Metadata == nil {
		c.charge.Metadata = map[string]string{}
	}
	c.key, c.orderID, c.paymentMethod = keys[0], c.charge.Metadata["order_id"], c.charge.PaymentMethod

	known := false
	err := s.store.view(func(tx *bolt.Tx) (err error) {
		_, known, err = s.keyRecord(tx, c.key)
		return err
	})
	switch {
	case err != nil:
		return s.storageError(err), true
	case known:
		return answer{}, false
	}
	if c.claimed = s.claim(c.key); !c.claimed {
		return failure(http.StatusConflict, Error{Type: "key_in_progress", IdempotencyKey: c.key,
			Message: "Another request with this key is still working."}), true
	}
	return answer{}, false
}

// workCharge gives the verdict on a key: the one in the file, or else a new one, which is in the file before it returns.
func (s *Sim) workCharge(c *call) answer {
	var a answer
	known, charged := false, false
	err := s.store.view(func(tx *bolt.Tx) (err error) {
		a, known, err = s.replay(tx, c)
		return err
	})
	if err == nil && !known {
		err = s.store.update(func(tx *bolt.Tx) (err error) {
			// A technical cancel may have come since.
			if a, known, err = s.replay(tx, c); known || err != nil {
				return err
			}
			a, charged, err = s.decide(tx, c)
			return err
		})
	}
	if err != nil {
		c.events = nil
		return s.storageError(err)
	}
	if charged {
		s.stats.charged(c.key)
		s.wakeSettler()
	}
	return a
}

// keyRecord reads the verdict on key; ok is false when it was never seen, or longer ago than keys are kept.
func (s *Sim) keyRecord(tx *bolt.Tx, key string) (rec keyRecord, ok bool, err error) {
	rec, ok, err = get[keyRecord](tx, bucketKeys, []byte(key))
	if ok && s.cfg.KeyRetention > 0 && time.Since(rec.CreatedAt) > s.cfg.KeyRetention {
		return keyRecord{}, false, nil
	}
	return rec, ok, err
}

// replay answers from the verdict that is in the file; ok is false when there is none.
func (s *Sim) replay(tx *bolt.Tx, c *call) (a answer, ok bool, err error) {
	rec, ok, err := s.keyRecord(tx, c.key)
	if !ok || err != nil {
		return a, false, err
	}
	same := rec.Amount == c.charge.Amount && rec.Currency == c.charge.Currency && rec.PaymentMethod == c.charge.PaymentMethod
	switch {
	case rec.Result == ResultCanceled:
		return failure(http.StatusGone, Error{Type: "key_canceled", IdempotencyKey: c.key,
			Message: "The key was cancelled before any charge."}), true, nil
	case !same:
		return failure(http.StatusUnprocessableEntity, Error{Type: "idempotency_mismatch", IdempotencyKey: c.key,
			Message: "The key was used with another amount, currency or payment method."}), true, nil
	case rec.Error != nil:
		return refusal(rec.Result, *rec.Error), true, nil
	}
	charge, err := mustCharge(tx, rec.Charge)
	return answer{status: http.StatusOK, body: charge.Charge}, true, err
}

// refusal is the answer to a charge that was declined or rejected.
func refusal(result string, e Error) answer {
	if result == ResultRejected {
		return failure(http.StatusUnprocessableEntity, e)
	}
	return failure(http.StatusPaymentRequired, e)
}

// decide makes the verdict on a key that has none, and writes it. charged says whether it is a charge.
func (s *Sim) decide(tx *bolt.Tx, c *call) (a answer, charged bool, err error) {
	verdict := verdictOn(c.charge.PaymentMethod)
	rec := keyRecord{
		Result: verdict.result, CreatedAt: time.Now(),
		Amount: c.charge.Amount, Currency: c.charge.Currency, PaymentMethod: c.charge.PaymentMethod,
	}
	if verdict.result != ResultCharged {
		rec.Error = &Error{Type: verdict.errorType, Code: verdict.code, IdempotencyKey: c.key, Message: "The charge was refused."}
		return refusal(rec.Result, *rec.Error), false, put(tx, bucketKeys, []byte(c.key), rec)
	}
	charge, err := s.newCharge(tx, c, verdict)
	if err != nil {
		return a, false, err
	}
	rec.Charge = charge.Seq
	return answer{status: http.StatusCreated, body: charge.Charge}, true, put(tx, bucketKeys, []byte(c.key), rec)
}

// newCharge writes a charge, and with it either its event or the time at which it settles.
func (s *Sim) newCharge(tx *bolt.Tx, c *call, v verdict) (chargeRecord, error) {
	charges := tx.Bucket(bucketCharges)
	seq, err := charges.NextSequence()
	if err != nil {
		return chargeRecord{}, err
	}
	now := s.store.now()
	rec := chargeRecord{Seq: seq, Traceparent: c.traceparent, Charge: Charge{
		ID: s.store.newID(chargePrefix, seq), Object: "charge", IdempotencyKey: c.key,
		Amount: c.charge.Amount, Currency: c.charge.Currency, Status: StatusSucceeded,
		PaymentMethod: c.charge.PaymentMethod, Description: c.charge.Description, Metadata: c.charge.Metadata,
		CreatedAt: now, UpdatedAt: now,
	}}
	if v.settlesTo == "" {
		event, err := s.addEvent(tx, rec)
		if err != nil {
			return rec, err
		}
		c.events = append(c.events, event)
	} else {
		rec.Status = StatusPending
		due := pendingKey(now.Add(s.cfg.PendingAfter), seq)
		if err := tx.Bucket(bucketPending).Put(due, []byte(v.settlesTo)); err != nil {
			return rec, err
		}
	}
	return rec, put(tx, bucketCharges, seqKey(seq), rec)
}

// verdict is what a payment method leads to.
type verdict struct {
	result          string
	settlesTo       string // the status a pending charge ends in
	errorType, code string // when it makes no charge
}

// verdictOn decides by the token alone (CONTRACT.md, "Tokens").
func verdictOn(paymentMethod string) verdict {
	switch paymentMethod {
	case "tok_visa":
		return verdict{result: ResultCharged}
	case "tok_pending":
		return verdict{result: ResultCharged, settlesTo: StatusSucceeded}
	case "tok_pending_fails":
		return verdict{result: ResultCharged, settlesTo: StatusFailed}
	case "tok_rejected":
		return verdict{result: ResultRejected, errorType: "charge_rejected", code: "blocked"}
	case "tok_declined":
		return verdict{result: ResultDeclined, errorType: "card_declined", code: "do_not_honor"}
	case "tok_insufficient_funds":
		return verdict{result: ResultDeclined, errorType: "card_declined", code: "insufficient_funds"}
	}
	return verdict{result: ResultDeclined, errorType: "card_declined", code: "invalid_payment_method"}
}

// storageError logs what the file said and gives the answer for it.
func (s *Sim) storageError(err error) answer {
	s.log.Error("the ledger failed", "error", err)
	return storageFailed()
}
