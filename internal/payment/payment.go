// Package payment is the flow of a purchase: claim the key, charge at the PSP, finish. It is also what settles a key whose request
// never came back, and what applies a charge that the PSP tells of by itself. All three end in the same fenced finish or the
// same forward-only write, so it does not matter which of them comes first.
package payment

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"chargeonce/internal/idempotency"
	"chargeonce/internal/psp"
)

// Status is where a charge stands. The statuses have a rank, in the order below, and a payment's status only rises in it, so
// the order in which news of a charge arrives does not matter.
type Status string

// The statuses of a payment, lowest rank first. The column's ENUM has the same order.
const (
	Pending   Status = "pending"
	Failed    Status = "failed"
	Succeeded Status = "succeeded"
	Canceled  Status = "canceled"
	Refunded  Status = "refunded"
)

func (s Status) valid() bool {
	switch s {
	case Pending, Failed, Succeeded, Canceled, Refunded:
		return true
	}
	return false
}

// Payment is our record of one charge. Amount is in minor units of Currency (ISO 4217). Times are UTC with milliseconds.
type Payment struct {
	UserID    int64
	ID        string
	OrderID   string
	Amount    int64
	Currency  string
	Status    Status
	ChargeID  string
	CreatedAt time.Time
	UpdatedAt time.Time
}

// NewID mints a payment id: "pay_" and a UUIDv7, so that ids sort by the time they were minted.
func NewID() string {
	id, err := uuid.NewV7()
	if err != nil {
		panic(fmt.Sprintf("payment: no random bytes: %v", err)) // crypto/rand does not fail on a system that works
	}
	return "pay_" + id.String()
}

// RefusalKind says why a key is done without a payment that stands.
type RefusalKind string

// The refusals. All are final, are stored, and ask for a new key.
const (
	CardDeclined RefusalKind = "declined"
	PSPRejected  RefusalKind = "rejected"
	Abandoned    RefusalKind = "abandoned"
)

// Refusal is a final answer other than a payment. Code is the PSP's decline or rejection code, if it gave one.
type Refusal struct {
	Kind RefusalKind
	Code string
}

// Result is a final answer before it is rendered: a payment, or a refusal.
type Result struct {
	Payment *Payment
	Refusal *Refusal
}

// Renderer turns a result into the very bytes that are stored, sent, and sent again. It must be deterministic. The layer that knows
// protocols provides it, since reconciliation finishes keys too and must store what a request would have been sent.
type Renderer interface {
	Render(Result) (idempotency.Stored, error)
	// Refused reports whether a stored answer is a refusal.
	Refused(idempotency.Stored) bool
}

// Answer is what a request ends with when its key is done.
type Answer struct {
	Stored idempotency.Stored
	// Replayed: the answer was stored before this request came.
	Replayed bool
}

// ErrNotFound: there is no such payment, or it is another user's.
var ErrNotFound = errors.New("no such payment")

// Undecided says why a request ends without a final answer. The key is released, and the same key may be sent again.
type Undecided string

// The reasons for ending undecided.
const (
	PSPUnavailable Undecided = "psp_unavailable" // nothing was sent: breaker open, connection refused
	Overloaded     Undecided = "overloaded"      // nothing was sent: the bulkhead is full
	OutcomeUnknown Undecided = "outcome_unknown" // a charge may exist
	DeadlineOver   Undecided = "deadline_over"   // the caller's time is over; a charge may exist
	ClientLeft     Undecided = "client_left"     // the caller hung up before anything was sent
)

// UndecidedError ends a request whose outcome is not final. Sending the same key again is the one right thing to do.
type UndecidedError struct {
	Why Undecided
	// RetryAfter is how long to wait first, 0 when nobody said.
	RetryAfter time.Duration
	Err        error
}

func (e *UndecidedError) Error() string {
	if e.Err == nil {
		return "undecided: " + string(e.Why)
	}
	return fmt.Sprintf("undecided: %s: %v", e.Why, e.Err)
}

// Unwrap gives the cause.
func (e *UndecidedError) Unwrap() error { return e.Err }

// OrderPaidError says that the order was paid under another key of the same user. Nothing was charged.
type OrderPaidError struct{ PaymentID string }

func (e *OrderPaidError) Error() string {
	return "the order is paid already, by payment " + e.PaymentID
}

// OrderInProgressError says that the order is being paid under another key of the same user.
type OrderInProgressError struct {
	// LeaseLeft is how long that key's lease lasts at the most; 0 when what it waits for is not a lease.
	LeaseLeft time.Duration
}

func (e *OrderInProgressError) Error() string { return "the order is being paid under another key" }

// DiffersError says that a charge at the PSP is not the one that our records speak of. Nothing is written; a person has to look.
type DiffersError struct {
	ChargeID string
	Field    string
	Ours     string
	Theirs   string
}

func (e *DiffersError) Error() string {
	return fmt.Sprintf("charge %s differs in %s: ours %s, theirs %s", e.ChargeID, e.Field, e.Ours, e.Theirs)
}

// statusOf maps the PSP's word to ours.
func statusOf(c psp.Charge) (Status, error) {
	s := Status(c.Status)
	if !s.valid() {
		return "", fmt.Errorf("charge %s has the unknown status %q", c.ID, c.Status)
	}
	return s, nil
}
