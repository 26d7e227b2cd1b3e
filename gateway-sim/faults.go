package gatewaysim

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Faults is what goes wrong, on purpose. The zero value is a PSP without a fault. It is the body of PUT /admin/faults and
// the content of the file that --faults names; every part of it can be combined with every other.
type Faults struct {
	// Seed makes the dice repeatable: with one seed, the n-th request that a rule looks at always gets the same throw.
	Seed uint64 `json:"seed,omitempty"`
	// Latency replaces Config.Latency: how long a POST /charges works before it decides.
	Latency Latency `json:"latency,omitzero"`
	// Rules are tried in order on every request but /healthz and /admin. They add up, with one limit: the first hang, error
	// or dropped connection that strikes ends the list, and only the first lost answer counts.
	//
	// A POST /charges whose key is being worked on by another request is answered 409 before any rule sees it.
	Rules []Rule `json:"rules,omitempty"`
	// Webhooks is what goes wrong with deliveries.
	Webhooks WebhookFaults `json:"webhooks,omitzero"`
}

// Fault names what a [Rule] does.
type Fault string

// The faults. Those "before" strike before anything is decided, so nothing is charged; those "after" spoil the answer to a
// request whose effect is in the file.
const (
	// Hang, before: the request is never answered. It holds its key ("processing") until the caller hangs up or the faults
	// are replaced or cleared; then its connection is cut. The end of the rule's own window answers no hung request.
	Hang Fault = "hang"
	// ErrorAnswer, before: an answer with Status, and with Retry-After if the rule has one.
	ErrorAnswer Fault = "error"
	// DropConnection, before: the connection is closed without an answer.
	DropConnection Fault = "drop_connection"
	// SlowAnswer, before: the request works for Latency longer. Its effect happens though the caller leaves meanwhile.
	SlowAnswer Fault = "latency"
	// LoseAnswer, after: the charge is made and the answer lost, in the way that How names.
	LoseAnswer Fault = "lose_answer"
	// WrongAmount, WrongCurrency and WrongKey, after: the answer names a charge that differs in that field. The ledger keeps
	// the right one.
	WrongAmount   Fault = "wrong_amount"
	WrongCurrency Fault = "wrong_currency"
	WrongKey      Fault = "wrong_key"
)

// How says in which way [LoseAnswer] loses an answer.
type How string

// The ways to lose an answer.
const (
	// LostByDrop closes the connection. It is the default.
	LostByDrop How = "drop_connection"
	// LostByHang never answers, until the caller hangs up or the faults are replaced or cleared. The key is free meanwhile.
	LostByHang How = "hang"
	// LostByError answers Status (default 500) with an error body.
	LostByError How = "error"
	// LostByCut announces the whole answer, sends half of it and closes the connection.
	LostByCut How = "cut_body"
	// LostByProxy answers Status (default 502) with the HTML page of a proxy.
	LostByProxy How = "proxy_page"
	// LostByGarbage answers 200 with a JSON content type and bytes that are no JSON.
	LostByGarbage How = "garbage"
)

// Rule is one fault and the requests that it strikes.
type Rule struct {
	Fault Fault `json:"fault"`
	// Match picks the requests that the rule looks at. Default: all.
	Match Match `json:"match,omitzero"`
	// Rate is the share of the matching requests that are struck, 0 to 1. Default: all of them.
	Rate *float64 `json:"rate,omitempty"`
	// Skip lets the first matching requests pass.
	Skip int `json:"skip,omitempty"`
	// Count is how many times the rule strikes at most. Default: no limit.
	Count int `json:"count,omitempty"`
	Window

	// How is for LoseAnswer.
	How How `json:"how,omitempty"`
	// Status is for ErrorAnswer (default 503) and for answers lost by an error (500) or a proxy's page (502). 400 to 599.
	Status int `json:"status,omitempty"`
	// RetryAfter, with ErrorAnswer or LostByError, is sent in whole seconds, rounded up, or with RetryAfterDate as the HTTP
	// date that far ahead.
	RetryAfter     Duration `json:"retry_after,omitempty"`
	RetryAfterDate bool     `json:"retry_after_date,omitempty"`
	// Latency is for SlowAnswer.
	Latency Latency `json:"latency,omitzero"`
}

// Match picks requests. A field that is empty picks all; those that are set must all hold.
type Match struct {
	Method string `json:"method,omitempty"`
	// Path is the beginning of the path: "/charges" matches "/charges/cancel" too.
	Path string `json:"path,omitempty"`
	// Exact makes Path the whole path.
	Exact bool `json:"exact,omitempty"`
	// IdempotencyKey is that of a POST /charges, a technical cancel or a look-up by key.
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	// OrderID (metadata order_id) and PaymentMethod are those of a POST /charges.
	OrderID       string `json:"order_id,omitempty"`
	PaymentMethod string `json:"payment_method,omitempty"`
}

// Window is a stretch of time, counted from the moment the faults were set, that begins and ends by itself. The zero value
// is always.
type Window struct {
	After Duration `json:"after,omitempty"`
	For   Duration `json:"for,omitempty"` // 0: to the end
}

// WebhookFaults is what goes wrong with deliveries. Early, Delay, Shuffle, Repeat and DropRate are decided when the event
// is made, the others at each delivery.
type WebhookFaults struct {
	Window
	// Off holds every delivery back. The events wait; they go out when it ends.
	Off bool `json:"off,omitempty"`
	// Early delivers the event of a charge, and waits for the receiver's answer, before the charge itself is answered.
	Early bool `json:"early,omitempty"`
	// Delay puts off the first delivery.
	Delay Duration `json:"delay,omitempty"`
	// Shuffle puts off every delivery by a random time up to this, so that they arrive out of order.
	Shuffle Duration `json:"shuffle,omitempty"`
	// Repeat is the number of extra deliveries of each event. Without Shuffle they go out together with the first.
	Repeat int `json:"repeat,omitempty"`
	// DropRate is the share of the events, 0 to 1, that are never delivered.
	DropRate float64 `json:"drop_rate,omitempty"`
	// BadSignatureRate is the share of the deliveries, 0 to 1, that are signed with a secret nobody has.
	BadSignatureRate float64 `json:"bad_signature_rate,omitempty"`
	// SignWith is the index of the only one of Config.WebhookSecrets that signs. Default: all of them sign.
	SignWith *int `json:"sign_with,omitempty"`
}

// FieldError says which field of [Faults] is wrong, as a path like "rules[0].rate", and why.
type FieldError struct {
	Field   string
	Problem string
}

// Error implements error.
func (e *FieldError) Error() string { return fmt.Sprintf("faults: %s: %s", e.Field, e.Problem) }

// ParseFaults reads the JSON form of [Faults] and validates it. A field that is unknown, of the wrong type or out of its
// range is a [*FieldError].
func ParseFaults(text []byte) (Faults, error) {
	var f Faults
	if err := unmarshalStrict(text, &f); err != nil {
		return Faults{}, fieldOf(err)
	}
	return f, f.Validate()
}

// fieldOf finds the field that a decoding error is about.
func fieldOf(err error) error {
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) {
		return &FieldError{Field: wrongType.Field, Problem: fmt.Sprintf("is a %s", wrongType.Value)}
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return &FieldError{Field: strings.Trim(name, `"`), Problem: "there is no such field"}
	}
	return &FieldError{Field: "(body)", Problem: err.Error()}
}
