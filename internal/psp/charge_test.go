package psp

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	inProgress = respond(409, errorJSON("key_in_progress", "", testKey))
	processing = respond(200, byKeyJSON(testKey, "processing", ""))
	neverSeen  = respond(404, errorJSON("key_not_found", "", testKey))
	mismatched = respond(422, errorJSON("idempotency_mismatch", "", testKey))
)

func found(charge string) step {
	return respond(200, byKeyJSON(testKey, "charged", `, "charge": `+charge))
}

// TestWhatAChargeDoesBeyondRetrying goes through the two answers that make it ask by key.
func TestWhatAChargeDoesBeyondRetrying(t *testing.T) {
	t.Parallel()
	declined := respond(200, byKeyJSON(testKey, "declined", `, "error": {"type": "card_declined", "code": "do_not_honor"}`))
	for name, tc := range map[string]struct {
		steps    []step
		want     Kind
		requests []string
	}{
		"a key in progress is polled until it is charged": {
			[]step{inProgress, processing, processing, found(chargeJSON(testKey, "succeeded"))}, Succeeded,
			[]string{"0s POST", "100ms GET", "300ms GET", "700ms GET"}},
		"a key in progress is polled until it is declined": {
			[]step{inProgress, declined}, Declined, []string{"0s POST", "100ms GET"}},
		"a key in progress turns out another charge's": {
			[]step{inProgress, found(chargeJSON(testKey, "succeeded", "amount", "1"))}, Mismatch, []string{"0s POST", "100ms GET"}},
		"Retry-After is waited for before the look-up": {
			[]step{respond(409, errorJSON("key_in_progress", "", testKey), "Retry-After", "2"), found(chargeJSON(testKey, "pending"))}, Pending,
			[]string{"0s POST", "2.1s GET"}},
		"a key whose other request left no trace is posted again": {
			[]step{inProgress, processing, neverSeen, charged}, Succeeded,
			[]string{"0s POST", "100ms GET", "300ms GET", "400ms POST"}},
		"polling is not spent as attempts, posting is": {
			[]step{unavailable, inProgress, processing, processing, processing, neverSeen, inProgress, neverSeen, unavailable, charged}, Unknown,
			[]string{"0s POST", "100ms POST", "200ms GET", "400ms GET", "800ms GET", "1.6s GET", "1.8s POST", "1.9s GET", "2.3s POST"}},
		"a look-up that fails for a moment is tried again": {
			[]step{inProgress, unavailable, found(chargeJSON(testKey, "succeeded"))}, Succeeded,
			[]string{"0s POST", "100ms GET", "200ms GET"}},
		"a look-up that is refused ends the polling": {
			[]step{inProgress, respond(401, "")}, StillWorking, []string{"0s POST", "100ms GET"}},
		"a key in progress to the end is still working": {
			[]step{inProgress, processing}, StillWorking,
			[]string{"0s POST", "100ms GET", "300ms GET", "700ms GET", "1.5s GET", "3.1s GET", "5.1s GET", "7.1s GET", "9.1s GET"}},

		"other parameters: the charge turns out ours": {
			[]step{mismatched, found(chargeJSON(testKey, "succeeded"))}, Succeeded, []string{"0s POST", "0s GET"}},
		"other parameters: the charge is another": {
			[]step{mismatched, found(chargeJSON(testKey, "succeeded", "amount", "1"))}, Mismatch, []string{"0s POST", "0s GET"}},
		"other parameters: no charge": {
			[]step{mismatched, neverSeen}, Unknown, []string{"0s POST", "0s GET"}},
		"other parameters: the other request was declined": {
			[]step{mismatched, declined}, Declined, []string{"0s POST", "0s GET"}},
		"other parameters: nobody answers": {
			[]step{mismatched, respond(500, "")}, Unknown, []string{"0s POST", "0s GET"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				psp := newFakePSP(tc.steps...)
				c := testClient(t, Config{}, psp, fullJitter)
				start := time.Now()
				// An odd deadline keeps it from falling on the very moment of an answer.
				r := c.Charge(within(t, 10*time.Second+time.Millisecond), testRequest)
				if r.Kind != tc.want || r.Attempts != len(tc.requests) {
					t.Errorf("got %+v", r)
				}
				if diff := cmp.Diff(tc.requests, psp.requests()); diff != "" {
					t.Errorf("want (-), got (+):\n%s", diff)
				}
				if r.Kind == Mismatch && (r.Charge == nil || r.Charge.Amount != 1 || !strings.Contains(r.Err.Error(), "over 1 EUR, not 1999 EUR")) {
					t.Errorf("got %+v", r)
				}
				if took := time.Since(start); took >= 10*time.Second {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

func TestPollingCostsNoTokensAndEarnsNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		psp := newFakePSP(unavailable, inProgress, processing, processing, processing, found(chargeJSON(testKey, "succeeded")))
		c := testClient(t, Config{}, psp, noJitter)
		c.Charge(within(t, 10*time.Second), testRequest)
		if left := c.budget.left(); left != 91 {
			t.Errorf("%d tenths left, want 91: one retry, one success", left)
		}
	})
}
