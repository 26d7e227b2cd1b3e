package psp

import "time"

// Kind is what is known of a charge after the PSP was asked. The zero value is Unknown: whatever is forgotten is treated
// as "a charge may exist".
type Kind int

// The kinds. Only those for which [Kind.Final] is true may be stored as the result of an idempotency key.
const (
	// Unknown: a charge may or may not exist. A time-out, a 5xx, a 401, 403, 404 or 413 from a proxy, a body that is cut.
	Unknown Kind = iota
	// Succeeded: the PSP holds a succeeded charge under this key.
	Succeeded
	// Pending: the PSP accepted the charge and will tell its end later.
	Pending
	// Failed: a charge that was pending has failed since; no money moved.
	Failed
	// Voided: the charge exists and was canceled.
	Voided
	// Refunded: the charge exists and its money went back.
	Refunded
	// Declined: the PSP's verdict on this key is a decline; no charge exists or ever will.
	Declined
	// Rejected: the PSP refused this key for good, other than by a decline.
	Rejected
	// Cancelled: the key was cancelled by a technical cancel before any charge; none will ever exist.
	Cancelled
	// StillWorking: another request with this key is being worked on at the PSP.
	StillWorking
	// NeverSeen: the PSP has no trace of this key (answers look-ups and nothing else). Not final: a request may be under way.
	NeverSeen
	// NotSent: no byte of any attempt went out. [Result.NotSent] says why.
	NotSent
	// Mismatch: the PSP holds a charge under this key that is not the one that was asked for. A person has to look.
	Mismatch
)

var kindNames = [...]string{"unknown", "succeeded", "pending", "failed", "voided", "refunded", "declined", "rejected",
	"cancelled", "still_working", "never_seen", "not_sent", "mismatch"}

// String gives the kind's name as it stands in logs and metric labels.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kindNames) {
		return "invalid"
	}
	return kindNames[k]
}

// Final reports whether the kind is the PSP's own verdict on the key, which no later attempt can change into another
// answer to the same request (design.md §4).
func (k Kind) Final() bool {
	switch k {
	case Succeeded, Pending, Failed, Voided, Refunded, Declined, Rejected, Cancelled:
		return true
	}
	return false
}

// HasCharge reports whether the kind comes with a charge that exists at the PSP and belongs in the payments table.
func (k Kind) HasCharge() bool {
	switch k {
	case Succeeded, Pending, Failed, Voided, Refunded:
		return true
	}
	return false
}

// refusal reports whether the kind tells that no charge exists or ever will.
func (k Kind) refusal() bool { return k == Declined || k == Rejected || k == Cancelled }

// NotSentReason says what kept a call from leaving.
type NotSentReason string

// The reasons for [NotSent].
const (
	// BreakerOpen: the breaker refused the call; [Result.RetryAfter] says when it lets the next one through.
	BreakerOpen NotSentReason = "breaker_open"
	// BulkheadFull: every slot was taken, and none came free within the short wait.
	BulkheadFull NotSentReason = "bulkhead_full"
	// ConnectFailed: no connection to the PSP: name look-up, TCP or TLS failed.
	ConnectFailed NotSentReason = "connect_failed"
	// DeadlineTooLow: less time was left than an attempt is worth ([Config.MinAttempt]).
	DeadlineTooLow NotSentReason = "deadline_too_low"
	// CallerLeft: the caller cancelled before anything went out.
	CallerLeft NotSentReason = "caller_left"
	// InvalidRequest: the request cannot be sent as it stands, such as a key that is no header value. A bug of the caller's.
	InvalidRequest NotSentReason = "invalid_request"
)

// ForeignUser is the UserID of a charge whose metadata name a user that is not in the form of ours: someone else's charge.
const ForeignUser int64 = -1

// Metadata goes along with a charge; the PSP echoes it everywhere and compares none of it. In a charge that was read, a
// zero field was not echoed, and a UserID that is no number of ours is [ForeignUser].
type Metadata struct {
	UserID    int64
	PaymentID string
	OrderID   string
}

// ChargeRequest asks for one charge. Key is the PSP's idempotency key (see idempotency.PSPKey); the rest must be the same
// in every request under one Key. Amount is in minor units, Currency an ISO 4217 code.
type ChargeRequest struct {
	Key           string
	Amount        int64
	Currency      string
	PaymentMethod string
	Description   string
	Metadata      Metadata
	// MayExist: an earlier request under this key may have charged, so a refusal is confirmed by a look-up before it is believed.
	MayExist bool
}

// Expect is what a charge found at the PSP must look like to be ours. A look-up that finds another one is a [Mismatch].
type Expect struct {
	Amount   int64
	Currency string
	UserID   int64
	OrderID  string
}

// Expect returns what a charge made by r must look like.
func (r ChargeRequest) Expect() Expect {
	return Expect{Amount: r.Amount, Currency: r.Currency, UserID: r.Metadata.UserID, OrderID: r.Metadata.OrderID}
}

// Charge is a charge as the PSP reports it. Status is one of "pending", "failed", "succeeded", "canceled", "refunded".
type Charge struct {
	ID             string
	IdempotencyKey string
	Amount         int64
	Currency       string
	Status         string
	FailureCode    string
	Metadata       Metadata
	CreatedAt      time.Time
}

// Result is what a call told of a key. It is a value and never nil: a failure is a Kind too.
type Result struct {
	Kind Kind
	// Charge is set when Kind.HasCharge, and for a Mismatch when the PSP showed the other charge.
	Charge *Charge
	// Code is the PSP's decline, rejection or failure code.
	Code string
	// RetryAfter is how long the PSP, or the breaker, asks to wait before the next call; 0 if nobody said.
	RetryAfter time.Duration
	// NotSent says why when Kind is NotSent.
	NotSent NotSentReason
	// Attempts counts the HTTP requests of which a byte may have gone out, look-ups by key included; 0 when NotSent.
	Attempts int
	// Err holds the errors behind an Unknown, NotSent, StillWorking or Mismatch, one per attempt that failed, for the log.
	// context.DeadlineExceeded is in its chain only when the caller's time ran out, context.Canceled only when the caller left.
	Err error
}
