package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"chargeonce/internal/mysql"
)

// What every purchase of a run has in common.
const (
	amount        = 1999 // minor units
	currency      = "EUR"
	paymentMethod = "tok_visa"
	description   = "bench"
)

// purchase is one request to pay.
type purchase struct {
	// user is the place of its user, and so of their API key, among the site's.
	user int
	// key is the idempotency key. order differs from purchase to purchase, so that an answer to another one is noticed.
	key, order string
}

// newPurchase makes one with a key of its own. Its keys fall anywhere among a user's, as random ones do.
func newPurchase() purchase {
	id := fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64())
	return purchase{user: rand.IntN(users), key: id, order: "o-" + id}
}

// answer is what one try at a purchase came to.
type answer struct {
	// charged: it was answered with the payment of its order. replayed: and that answer had been given before.
	charged, replayed bool
	// reason is the service's word for a refusal, or what else went wrong. again: the same key is to be sent again.
	reason string
	again  bool
}

// caller sends a purchase once. Each is one worker's own.
type caller interface {
	try(ctx context.Context, p purchase) answer
	close() error
}

// tryTimeout bounds one try, tries how often a purchase is sent. The service's own bounds are shorter: a purchase that is not
// settled then is a fault of the service or of this harness.
const (
	tryTimeout = 15 * time.Second
	tries      = 20
	maxPause   = time.Second
)

const reasonInProgress = "IDEMPOTENCY_KEY_IN_PROGRESS"

var (
	errUnsettled = errors.New("a purchase was not settled")
	errWrong     = errors.New("a wrong answer")
)

// tally counts what clients were told.
type tally struct {
	mu sync.Mutex
	// charged counts purchases that ended with a payment.
	charged int64
	// refused counts by reason the tries that were told to come again.
	refused map[string]int64
}

func (t *tally) buy() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.charged++
}

func (t *tally) refuse(reason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.refused == nil {
		t.refused = map[string]int64{}
	}
	t.refused[reason]++
}

// until sends a purchase, as the contract has it, with its one key until the answer is one that want takes. Refusals that say to
// come again are counted, and waited after.
func (t *tally) until(ctx context.Context, c caller, p purchase, want func(answer) bool) error {
	var a answer
	for n := range tries {
		a = c.try(ctx, p)
		if want(a) {
			return nil
		}
		if !a.again {
			return fmt.Errorf("%w: key %s: %s", errWrong, p.key, a)
		}
		t.refuse(a.reason)
		if err := mysql.Pause(ctx, n, maxPause); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: key %s, %d tries, the last: %s", errUnsettled, p.key, tries, a)
}

// String words the answer for an error.
func (a answer) String() string {
	switch {
	case a.charged && a.replayed:
		return "charged, replayed"
	case a.charged:
		return "charged"
	}
	return a.reason
}
