package reconcile_test

import "testing"

// TestCases has the faults that users of comparable systems met, as far as they are about reconciliation.
func TestCases(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		test func(*testing.T)
	}{
		{"case 08: no key stays in progress for ever", stuckKeyEndsByWhatThePSPSays},
		{"case 09: a key that is taken over while a client retries is charged once", twoPassesOverLiveTrafficRaiseNoAlarm},
		{"case 09: a key that two passes take up is settled once", twoPassesAtOnceSettleEachKeyOnce},
		{"case 10: a pass that lost its lease writes nothing", frozenReconciliationCancelsNothing},
		{"case 10: a request that lost its lease writes nothing", holderThatWakesAfterAbandonmentChargesNothing},
		{"case 17: a webhook that is lost is made up for", pendingChargeIsAskedFor},
		{"case 20: no answer is no refusal", pspThatIsDownDecidesNothing},
		{"case 20: not found is final after a window and a technical cancel", neverSeenIsFinalAfterAWindow},
		{"case 20: a pass comes to its end", eachKeyIsSeenOncePerPass},
		{"case 24: the PSP is asked before a key is ended", everyKeyIsAskedForBeforeItEnds},
	} {
		t.Run(tt.name, tt.test)
	}
}
