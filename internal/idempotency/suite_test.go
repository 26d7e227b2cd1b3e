package idempotency_test

import (
	"database/sql"
	"testing"
	"time"

	"chargeonce/internal/idempotency"
)

// newStore makes the store under test.
type newStore func(*sql.DB) *idempotency.Store

// TestStore holds both forms of the store to the same promises.
func TestStore(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*testing.T, newStore){
		"ADuplicateBeforeTheDatabaseGoesAwayIsUnavailable": testADuplicateBeforeTheDatabaseGoesAwayIsUnavailable,
		"ClaimThenReplay":                                  testClaimThenReplay,
		"AnotherRequestUnderTheKeyIsRefused":               testAnotherRequestUnderTheKeyIsRefused,
		"AStaleHolderWritesNothing":                        testAStaleHolderWritesNothing,
		"ReleaseLetsARetryInAtOnce":                        testReleaseLetsARetryInAtOnce,
		"AParkedKeyStaysParked":                            testAParkedKeyStaysParked,
		"OfManyClaimsOneWins":                              testOfManyClaimsOneWins,
		"TwoThatReadTheSameLease":                          testTwoThatReadTheSameLease,
		"OnlyARetryMovesTheTimeOfTheLastAttempt":           testOnlyARetryMovesTheTimeOfTheLastAttempt,
		"TheRowNamesTheTraceOfTheLastAttempt":              testTheRowNamesTheTraceOfTheLastAttempt,
		"StuckKeysComeOldestFirstEachOnce":                 testStuckKeysComeOldestFirstEachOnce,
		"ByPaymentFindsTheKeyThatMintedTheID":              testByPaymentFindsTheKeyThatMintedTheID,
		"AFingerprintOfAnUnknownVersionDecidesNothing":     testAFingerprintOfAnUnknownVersionDecidesNothing,
		"ATakeOverNeedsTheVeryLeaseThatWasRead":            testATakeOverNeedsTheVeryLeaseThatWasRead,
		"AClaimWhoseStatementOrAnswerIsLostIsStillOurs":    testAClaimWhoseStatementOrAnswerIsLostIsStillOurs,
		"ATakeOverWhoseStatementOrAnswerIsLostIsStillOurs": testATakeOverWhoseStatementOrAnswerIsLostIsStillOurs,
		"AReleaseWhoseStatementOrAnswerIsLostIsRepeated":   testAReleaseWhoseStatementOrAnswerIsLostIsRepeated,
		"AClaimThatArrivesLateChangesNothing":              testAClaimThatArrivesLateChangesNothing,
		"AClaimWithoutADatabaseEnds":                       testAClaimWithoutADatabaseEnds,
	}
	for form, make := range map[string]newStore{
		"one at a time": idempotency.NewStore,
		"coalescing":    func(db *sql.DB) *idempotency.Store { return idempotency.NewCoalescingStore(db, 5*time.Second) },
	} {
		for name, test := range tests {
			t.Run(form+"/"+name, func(t *testing.T) { test(t, make) })
		}
	}
}
