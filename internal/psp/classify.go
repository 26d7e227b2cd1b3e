package psp

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// answer is what came of one exchange, before it is judged.
type answer struct {
	sent   bool    // A byte of the request may have gone out.
	broken failing // Why no answer came, or only a part of one; "" when it came.
	err    error   // The error behind broken; or, of an answer that came, why its body was not read.

	status     int
	retryAfter time.Duration
	body       []byte
}

// failing says why an exchange ended without a whole answer. It is a reason in logs, metrics and spans too.
type failing string

const (
	callerLeft     failing = "canceled"
	callerDeadline failing = "deadline"
	attemptTimeout failing = "timeout"
	connection     failing = "connection"
	unsendable     failing = "unsendable"
)

// verdict is a judged answer: what is known of the key, and what retry and breaker make of it.
type verdict struct {
	kind       Kind
	charge     *Charge
	page       Page
	code       string
	notSent    NotSentReason
	retryAfter time.Duration

	answered bool   // The answer is one of the contract's: documented, and about what was asked.
	askByKey bool   // The key is said to be used with other parameters: look it up.
	effect   effect // What the breaker is told.
	retry    bool   // Another attempt may get a better answer.
	reason   string // Why there is no verdict, one of few words; "" when there is one.
	err      error
}

// response is a documented answer: the operation, the status and what the body says (see [document]).
type response struct {
	op     operation
	status int
	says   string
}

// documented is the single place that decides what is final: the PSP's documented answers that say something of a key. An answer
// that is not here is Unknown, whatever its status, and so is one that names another key.
var documented = map[response]Kind{
	{opCharge, 201, "charge:succeeded"}:     Succeeded,
	{opCharge, 201, "charge:pending"}:       Pending,
	{opCharge, 200, "charge:succeeded"}:     Succeeded,
	{opCharge, 200, "charge:pending"}:       Pending,
	{opCharge, 200, "charge:failed"}:        Failed,
	{opCharge, 200, "charge:canceled"}:      Voided,
	{opCharge, 200, "charge:refunded"}:      Refunded,
	{opCharge, 402, "card_declined"}:        Declined,
	{opCharge, 422, "charge_rejected"}:      Rejected,
	{opCharge, 410, "key_canceled"}:         Cancelled,
	{opCharge, 409, "key_in_progress"}:      StillWorking,
	{opCharge, 422, "idempotency_mismatch"}: Unknown, // A charge may exist: it is looked up by key.

	{opLookUp, 200, "charged:succeeded"}:        Succeeded,
	{opLookUp, 200, "charged:pending"}:          Pending,
	{opLookUp, 200, "charged:failed"}:           Failed,
	{opLookUp, 200, "charged:canceled"}:         Voided,
	{opLookUp, 200, "charged:refunded"}:         Refunded,
	{opLookUp, 200, "declined:card_declined"}:   Declined,
	{opLookUp, 200, "rejected:charge_rejected"}: Rejected,
	{opLookUp, 200, "canceled"}:                 Cancelled,
	{opLookUp, 200, "processing"}:               StillWorking,
	{opLookUp, 404, "key_not_found"}:            NeverSeen,

	{opCancel, 200, "charged:succeeded"}:        Succeeded,
	{opCancel, 200, "charged:pending"}:          Pending,
	{opCancel, 200, "charged:failed"}:           Failed,
	{opCancel, 200, "charged:canceled"}:         Voided,
	{opCancel, 200, "charged:refunded"}:         Refunded,
	{opCancel, 200, "declined:card_declined"}:   Declined,
	{opCancel, 200, "rejected:charge_rejected"}: Rejected,
	{opCancel, 200, "canceled"}:                 Cancelled,
	{opCancel, 200, "processing"}:               StillWorking,

	{opGet, 200, "charge:succeeded"}: Succeeded,
	{opGet, 200, "charge:pending"}:   Pending,
	{opGet, 200, "charge:failed"}:    Failed,
	{opGet, 200, "charge:canceled"}:  Voided,
	{opGet, 200, "charge:refunded"}:  Refunded,
	{opGet, 404, "charge_not_found"}: NeverSeen,
	{opStatement, 200, "page"}:       Unknown, // Says nothing of one key.
}

// classify judges an answer to q. It is a function of its arguments alone.
func classify(q call, a answer) verdict {
	if a.broken != "" {
		return withoutAnswer(a)
	}
	if a.err != nil {
		return undocumented(a, a.err)
	}
	doc, err := readDocument(q.op, a.status, a.body)
	kind, known := documented[response{q.op, a.status, doc.says}]
	switch {
	case err != nil || !known:
		return undocumented(a, err)
	case doc.keyed && q.key != "" && doc.key != q.key:
		return undocumented(a, errors.New("the body names another key"))
	}
	v := verdict{kind: kind, charge: doc.charge, page: doc.page, code: doc.code, answered: true, effect: success,
		retryAfter: a.retryAfter}
	if doc.charge != nil {
		if err := q.differs(*doc.charge); err != nil {
			v.kind, v.code, v.reason, v.err = Mismatch, "", "mismatch", err
		}
		return v
	}
	switch {
	case kind == StillWorking && a.status == http.StatusConflict:
		v.effect, v.reason = neutral, "key_in_progress"
	case doc.says == "idempotency_mismatch":
		v.askByKey, v.reason, v.err = true, doc.says, errors.New("answered 422: the key was used with other parameters")
	}
	return v
}

// withoutAnswer judges an exchange that broke off: a time-out, a failed connection, a caller who left, a body without end.
func withoutAnswer(a answer) verdict {
	v := verdict{kind: Unknown, reason: string(a.broken), err: a.err}
	switch a.broken {
	case attemptTimeout, connection:
		v.effect, v.retry = failure, true
	case callerDeadline:
		v.effect = failure // The PSP was too slow for this caller; that the caller had little time changes nothing of it.
	}
	if !a.sent {
		v.kind, v.notSent = NotSent, ConnectFailed
		switch a.broken {
		case callerLeft:
			v.notSent = CallerLeft
		case unsendable:
			v.notSent = InvalidRequest
		case connection:
			v.reason = string(ConnectFailed)
		}
	}
	return v
}

// undocumented judges an answer that is on no row: a charge may exist. The status alone decides on retry and breaker.
func undocumented(a answer, why error) verdict {
	v := verdict{kind: Unknown, retryAfter: a.retryAfter, reason: statusWord(a.status), err: fmt.Errorf("answered %d", a.status)}
	switch {
	case a.status == http.StatusRequestTimeout, a.status == http.StatusTooManyRequests:
		v.retry = true
	case a.status == http.StatusBadGateway, a.status == http.StatusServiceUnavailable, a.status == http.StatusGatewayTimeout:
		v.effect, v.retry = failure, true
	case a.status >= http.StatusInternalServerError:
		v.effect = failure
	case why != nil:
		v.err = fmt.Errorf("%w: %w", v.err, why)
	}
	return v
}

// statusWord names a status in logs and metrics. One that is not registered could be any of a thousand.
func statusWord(status int) string {
	if http.StatusText(status) == "" {
		return "unregistered_status"
	}
	return strconv.Itoa(status)
}
