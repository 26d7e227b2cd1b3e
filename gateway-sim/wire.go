package gatewaysim

import (
	"encoding/json"
	"net/http"
	"time"
)

// The states of a charge (CONTRACT.md, "Objects").
const (
	StatusPending   = "pending"
	StatusFailed    = "failed"
	StatusSucceeded = "succeeded"
	StatusCanceled  = "canceled"
	StatusRefunded  = "refunded"
)

// The results that a look-up by key can have (CONTRACT.md, "GET /charges?idempotency_key=K").
const (
	ResultCharged    = "charged"
	ResultDeclined   = "declined"
	ResultRejected   = "rejected"
	ResultCanceled   = "canceled"
	ResultProcessing = "processing"
)

// Time is a time as the contract writes it: RFC 3339, UTC, always six digits after the point.
type Time struct{ time.Time }

const timeLayout = `"2006-01-02T15:04:05.000000Z"`

// MarshalJSON implements [json.Marshaler].
func (t Time) MarshalJSON() ([]byte, error) {
	return t.UTC().AppendFormat(make([]byte, 0, len(timeLayout)), timeLayout), nil
}

// Equal reports whether both are the same instant.
func (t Time) Equal(u Time) bool { return t.Time.Equal(u.Time) }

// Charge is a charge as it goes over the wire. Amount is in minor units, Currency an ISO 4217 code.
type Charge struct {
	ID             string            `json:"id"`
	Object         string            `json:"object"`
	IdempotencyKey string            `json:"idempotency_key"`
	Amount         int64             `json:"amount"`
	Currency       string            `json:"currency"`
	Status         string            `json:"status"`
	PaymentMethod  string            `json:"payment_method"`
	Description    string            `json:"description"`
	Metadata       map[string]string `json:"metadata"`
	FailureCode    string            `json:"failure_code"`
	CreatedAt      Time              `json:"created_at"`
	UpdatedAt      Time              `json:"updated_at"`
}

// Error is the member "error" of every answer that is not 2xx.
type Error struct {
	Type           string `json:"type"`
	Code           string `json:"code,omitempty"`
	Message        string `json:"message"`
	IdempotencyKey string `json:"idempotency_key,omitempty"`
}

// lookup is the answer to a look-up by key and to a technical cancel.
type lookup struct {
	IdempotencyKey string  `json:"idempotency_key"`
	Result         string  `json:"result"`
	Charge         *Charge `json:"charge,omitempty"`
	Error          *Error  `json:"error,omitempty"`
}

// page is one page of the statement.
type page struct {
	Data       []Charge `json:"data"`
	NextCursor string   `json:"next_cursor"`
}

// eventBody is the body of a webhook.
type eventBody struct {
	Type      string    `json:"type"`
	Timestamp Time      `json:"timestamp"`
	Data      eventData `json:"data"`
}

type eventData struct {
	Charge Charge `json:"charge"`
}

// answer is what a request is told, before any fault has touched it. body is rendered as JSON, unless it is already.
type answer struct {
	status   int
	body     any
	rendered []byte
}

func failure(status int, e Error) answer {
	return answer{status: status, body: struct {
		Error Error `json:"error"`
	}{e}}
}

func invalidRequest(message string) answer {
	return failure(http.StatusBadRequest, Error{Type: "invalid_request", Message: message})
}

// storageFailed is the answer when the file could not be read or written: nothing was recorded, and nothing is final.
func storageFailed() answer {
	return failure(http.StatusInternalServerError, Error{Type: "internal", Message: "The ledger could not be read or written."})
}

func chargeNotFound() answer {
	return failure(http.StatusNotFound, Error{Type: "charge_not_found", Message: "There is no such charge."})
}

// render returns the answer's bytes. Every body is a plain struct of strings and integers, which always renders.
func (a answer) render() ([]byte, error) {
	if a.rendered != nil {
		return a.rendered, nil
	}
	return json.Marshal(a.body)
}
