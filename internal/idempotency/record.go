// Package idempotency keeps the idempotency keys: their syntax, the fingerprint of a request, and the lease store, which decides
// who may work on a key ("design B": the key is committed as processing before the side effect, since that cannot be rolled back).
//
// The rules of the store, in one place:
//
//   - The primary key is the arbiter. A claim is one INSERT that commits by itself; nothing is read before it.
//   - Whoever works on a key holds its lease: the pair (lease, holder). lease grows with every take-over (the fencing token),
//     holder is minted for every claim. Every later write carries both, and a write that matches no row is a lost lease.
//   - A lease's time is the database's, in locked_until and NOW(3). No clock of a client or server is compared with it.
//   - An answer that was lost is settled by reading holder and status, never by guessing.
package idempotency

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
)

// Status is where a key stands.
type Status string

// The statuses of a key.
const (
	Processing Status = "processing" // somebody works on it, or did until locked_until
	Done       Status = "done"       // its answer is stored and final
	Parked     Status = "parked"     // a person has to decide
)

// Claim asks for a key on behalf of one request.
type Claim struct {
	UserID int64
	Key    Key
	// RPC and Request are what the fingerprint is taken of.
	RPC     string
	Request proto.Message
	// PaymentID is minted for this claim; it counts only if the key is new.
	PaymentID string
	// OrderID, Amount (minor units) and Currency are what reconciliation holds against the PSP.
	OrderID  string
	Amount   int64
	Currency string
	// OnePerOrder claims the order along with the key: while another key of the user pays it, or once one has, the claim fails.
	OnePerOrder bool
	// TTL is how long the lease lasts from the moment the database grants it: as long as the request can take, and a margin.
	TTL time.Duration
}

// Lease is the right to work on one key. It is worth something only as long as nobody has taken it over, which the holder
// learns at its next write.
type Lease struct {
	UserID int64
	Key    Key
	// Token is the fencing token: 1 for the first holder, one more for each that took the key over.
	Token  int64
	Holder uuid.UUID
	// PaymentID is the one that the first claim minted.
	PaymentID string
	// OrderID, Amount and Currency are what the key buys.
	OrderID  string
	Amount   int64
	Currency string
}

// TakenOver reports whether somebody held this key before: a charge may then exist that this holder knows nothing of.
func (l Lease) TakenOver() bool { return l.Token > 1 }

// Stored is a final answer as it was sent and will be sent again, byte for byte. What Code and Body mean is the server's business.
type Stored struct {
	Code int
	Body []byte
}

// Record is a key's row.
type Record struct {
	UserID      int64
	Key         Key
	Fingerprint Fingerprint
	HashVersion int
	Status      Status
	Lease       int64
	Holder      uuid.UUID
	// LeaseLeft is locked_until minus the database's NOW(3) when the row was read; zero or less: it may be taken over.
	LeaseLeft time.Duration
	// SinceAttempt is the database's NOW(3) minus attempted_at: how long ago a request last set out to charge.
	SinceAttempt time.Duration
	// Age is the database's NOW(3) minus created_at.
	Age         time.Duration
	PaymentID   string
	OrderID     string
	Amount      int64
	Currency    string
	Stored      Stored // zero unless Done; its Body is nil when it was dropped (see [Store.DropBody])
	ParkedFor   string // why, when Parked
	HoldsOrder  bool   // no other key may pay the order (see [Claim.OnePerOrder])
	LockedUntil time.Time
	CreatedAt   time.Time
	// Traceparent names the trace of the request that last set out to charge, in the form of W3C Trace Context §3.2; "" if it was not traced.
	Traceparent string
}

// held gives the lease that the row shows.
func (r Record) held() Lease {
	return Lease{UserID: r.UserID, Key: r.Key, Token: r.Lease, Holder: r.Holder,
		PaymentID: r.PaymentID, OrderID: r.OrderID, Amount: r.Amount, Currency: r.Currency}
}

// HeldBy reports whether the row's last claim is l: nobody has taken the key over since.
func (r Record) HeldBy(l Lease) bool { return r.Lease == l.Token && r.Holder == l.Holder }

var (
	// ErrReused: the key is another request's.
	ErrReused = errors.New("the idempotency key was used with another request")
	// ErrParked: the key waits for a person.
	ErrParked = errors.New("the payment is under review")
	// ErrLeaseLost: the write matched no row, since the key was taken over, finished or parked by somebody else. Nothing was written.
	ErrLeaseLost = errors.New("the lease was lost")
	// ErrNotFound: there is no such key.
	ErrNotFound = errors.New("no such idempotency key")
)

// InProgressError says that somebody else holds the key.
type InProgressError struct {
	// LeaseLeft is how long the holder's lease lasts at the most, by the database's clock.
	LeaseLeft time.Duration
}

func (e *InProgressError) Error() string {
	return fmt.Sprintf("a request with this idempotency key is in progress (its lease lasts %s at the most)", e.LeaseLeft)
}

// OrderOpenError says that another key of the same user is paying the order, or has paid it.
type OrderOpenError struct {
	// Record is that key's row.
	Record Record
}

func (e *OrderOpenError) Error() string {
	return fmt.Sprintf("the order is open under another key, which is %s", e.Record.Status)
}
