package gatewaysim

import (
	"encoding/json"
	"net/http"
	"time"
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

	_, known, err := s.verdict(c.key)
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
	var made *entry
	err := s.store.update(func() (*entry, error) {
		known := false
		var err error
		if a, known, err = s.replay(c); known || err != nil {
			return nil, err
		}
		made = s.decide(c)
		return made, nil
	})
	switch {
	case err != nil:
		c.events = nil
		return s.storageError(err)
	case made == nil:
		return a
	case made.Charge == nil:
		return refusal(*made.Verdict)
	}
	s.stats.charged(c.key)
	if made.Settles != nil {
		s.wakeSettler()
	}
	return answer{status: http.StatusCreated, body: *made.Charge, rendered: made.wire}
}

// verdict reads the verdict on key; ok is false when it was never seen, or longer ago than keys are kept.
func (s *Sim) verdict(key string) (e entry, ok bool, err error) {
	e, ok, err = s.store.verdict(key)
	if ok && s.cfg.KeyRetention > 0 && time.Since(e.decidedAt()) > s.cfg.KeyRetention {
		return entry{}, false, nil
	}
	return e, ok, err
}

// replay answers from the verdict that is in the file; ok is false when there is none.
func (s *Sim) replay(c *call) (a answer, ok bool, err error) {
	e, ok, err := s.verdict(c.key)
	if !ok || err != nil {
		return a, false, err
	}
	switch {
	case e.Verdict != nil && e.Verdict.Result == ResultCanceled:
		return failure(http.StatusGone, Error{Type: "key_canceled", IdempotencyKey: c.key,
			Message: "The key was cancelled before any charge."}), true, nil
	case !e.isFor(c.charge):
		return failure(http.StatusUnprocessableEntity, Error{Type: "idempotency_mismatch", IdempotencyKey: c.key,
			Message: "The key was used with another amount, currency or payment method."}), true, nil
	case e.Verdict != nil:
		return refusal(*e.Verdict), true, nil
	}
	now, err := s.store.mustCharge(e.Seq)
	if err != nil {
		return a, false, err
	}
	return answer{status: http.StatusOK, body: *now.Charge}, true, nil
}

// refusal is the answer to a charge that was declined or rejected.
func refusal(v verdictRecord) answer {
	if v.Result == ResultRejected {
		return failure(http.StatusUnprocessableEntity, *v.Error)
	}
	return failure(http.StatusPaymentRequired, *v.Error)
}

// decide makes the verdict on a key that has none.
func (s *Sim) decide(c *call) *entry {
	verdict := verdictOn(c.charge.PaymentMethod)
	if verdict.result == ResultCharged {
		return s.newCharge(c, verdict.settlesTo)
	}
	return &entry{Verdict: &verdictRecord{
		Key: c.key, Result: verdict.result, CreatedAt: time.Now(),
		Amount: c.charge.Amount, Currency: c.charge.Currency, PaymentMethod: c.charge.PaymentMethod,
		Error: &Error{Type: verdict.errorType, Code: verdict.code, IdempotencyKey: c.key, Message: "The charge was refused."},
	}}
}

// newCharge makes a charge, and with it either its event or, if it is pending, the time at which it settles.
func (s *Sim) newCharge(c *call, settlesTo string) *entry {
	seq := s.store.lastCharge() + 1
	now := s.store.now()
	e := &entry{Seq: seq, Traceparent: c.traceparent, Charge: &Charge{
		ID: s.store.newID(chargePrefix, seq), Object: "charge", IdempotencyKey: c.key,
		Amount: c.charge.Amount, Currency: c.charge.Currency, Status: StatusSucceeded,
		PaymentMethod: c.charge.PaymentMethod, Description: c.charge.Description, Metadata: c.charge.Metadata,
		CreatedAt: now, UpdatedAt: now,
	}}
	if settlesTo == "" {
		c.events = append(c.events, s.addEvent(e))
		return e
	}
	e.Charge.Status = StatusPending
	e.Settles = &settlement{To: settlesTo, At: now.Add(s.cfg.PendingAfter)}
	return e
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
