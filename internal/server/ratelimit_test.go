package server

import (
	"crypto/sha256"
	"errors"
	"strconv"
	"testing"
	"time"

	paymentsv1 "chargeonce/api/payments/v1"
)

func keyHash(i int) [sha256.Size]byte { return sha256.Sum256([]byte(strconv.Itoa(i))) }

// newClockedRates returns limits with a clock of their own.
func newClockedRates(perSecond float64, burst int) (*rateLimits, *time.Time) {
	now := time.Unix(1e9, 0)
	r := newRateLimits(perSecond, burst)
	r.now = func() time.Time { return now }
	return r, &now
}

func TestARateLimitRefusesWithTheTimeUntilThereIsRoom(t *testing.T) {
	t.Parallel()
	r, now := newClockedRates(2, 3)
	for i := range 3 {
		if err := r.take(keyHash(1)); err != nil {
			t.Fatalf("request %d of the burst: %v", i+1, err)
		}
	}
	for range 5 { // being refused takes nothing
		var p *problem
		if err := r.take(keyHash(1)); !errors.As(err, &p) || p.reason != paymentsv1.Reason_OVERLOADED ||
			p.retryAfter < 500*time.Millisecond || p.retryAfter > 550*time.Millisecond {
			t.Fatalf("beyond the burst: %v after %v, want OVERLOADED after 500 ms and some more", err, p.retryAfter)
		}
	}
	if err := r.take(keyHash(2)); err != nil {
		t.Errorf("another key: %v", err)
	}
	*now = now.Add(500 * time.Millisecond)
	if err := r.take(keyHash(1)); err != nil {
		t.Errorf("after the wait: %v", err)
	}
	if err := r.take(keyHash(1)); err == nil {
		t.Error("one more right after it was let through")
	}
}

// A bucket is forgotten only once it would be full: nobody gets a new burst by waiting for less than a refill takes.
func TestForgettingABucketGivesNothingAway(t *testing.T) {
	t.Parallel()
	r, now := newClockedRates(1, 10) // 10 s to refill
	taken := 0
	for second := range 400 {
		for second%7 == 0 && r.take(keyHash(1)) == nil { // all that it can get, then nothing for 7 s
			taken++
		}
		if most := 10 + second; taken > most {
			t.Fatalf("after %d s: %d requests, want at most %d", second, taken, most)
		}
		if err := r.take(keyHash(2)); err != nil { // the clock of the generations goes on
			t.Fatal(err)
		}
		*now = now.Add(time.Second)
	}
	*now = now.Add(11 * time.Second)
	if err := r.take(keyHash(3)); err != nil {
		t.Fatal(err)
	}
	*now = now.Add(11 * time.Second)
	if err := r.take(keyHash(3)); err != nil {
		t.Fatal(err)
	}
	if n := len(r.young) + len(r.old); n != 1 {
		t.Errorf("%d buckets are remembered, want the one in use", n)
	}
}

func TestRateLimitsTakeBoundedMemory(t *testing.T) {
	t.Parallel()
	r, _ := newClockedRates(1, 1)
	for i := range 3*rateKeysPerGeneration + 10 {
		if err := r.take(keyHash(i)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(r.young) + len(r.old); n > 2*rateKeysPerGeneration {
		t.Errorf("%d buckets are remembered, want at most %d", n, 2*rateKeysPerGeneration)
	}
}

func TestWithoutARateLimitThereIsNone(t *testing.T) {
	t.Parallel()
	r := newRateLimits(0, 0)
	for range 1000 {
		if err := r.take(keyHash(1)); err != nil {
			t.Fatal(err)
		}
	}
}
