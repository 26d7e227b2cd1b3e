package server

import (
	"crypto/sha256"
	"errors"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	paymentsv1 "chargeonce/api/payments/v1"
)

// rateLimits holds each API key to a number of requests per second (a token bucket). nil limits nothing.
//
// A bucket that nobody has taken from for a whole refill is as full as a new one and need not be remembered. So buckets live in
// two generations of one refill's length each: what is used moves into the young one, and what is not is gone with the old.
type rateLimits struct {
	limit rate.Limit
	burst int
	now   func() time.Time

	mu         sync.Mutex
	young, old map[[sha256.Size]byte]*rate.Limiter
	since      time.Time // when the young generation began
}

// rateKeysPerGeneration bounds the memory, should more keys than this be in use at once: then a bucket is forgotten early, and
// its key has a new burst.
const rateKeysPerGeneration = 10_000

var errRate = errors.New("the API key is over its rate limit")

// newRateLimits returns nil when perSecond is 0.
func newRateLimits(perSecond float64, burst int) *rateLimits {
	if perSecond == 0 {
		return nil
	}
	if burst == 0 {
		burst = int(math.Ceil(perSecond))
	}
	return &rateLimits{limit: rate.Limit(perSecond), burst: burst, now: time.Now}
}

// take takes a token for a request by the API key with this hash, or returns a *problem that says when there will be one.
func (r *rateLimits) take(key [sha256.Size]byte) error {
	if r == nil {
		return nil
	}
	now := r.now()
	reserved := r.bucket(key, now).ReserveN(now, 1)
	wait := reserved.DelayFrom(now)
	if wait == 0 {
		return nil
	}
	reserved.CancelAt(now)
	p := retryLater(paymentsv1.Reason_OVERLOADED, wait, errRate)
	p.detail = "This API key sends more requests than it may."
	return p
}

func (r *rateLimits) bucket(key [sha256.Size]byte, now time.Time) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	refill := float64(r.burst) / float64(r.limit) // in seconds: of a low limit it is more than a time.Duration holds
	if now.Sub(r.since).Seconds() > refill || len(r.young) >= rateKeysPerGeneration {
		r.old, r.young, r.since = r.young, map[[sha256.Size]byte]*rate.Limiter{}, now
	}
	b := r.young[key]
	if b == nil {
		if b = r.old[key]; b == nil {
			b = rate.NewLimiter(r.limit, r.burst)
		}
		delete(r.old, key)
		r.young[key] = b
	}
	return b
}
