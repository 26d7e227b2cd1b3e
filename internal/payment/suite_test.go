package payment_test

import (
	"strings"
	"testing"

	"chargeonce/internal/payment"
)

const coalescing = "coalescing"

// TestFlow holds the flow to its promises in both of its forms.
func TestFlow(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*testing.T){
		"APurchaseIsChargedOnceAndItsAnswerReplayed":                testAPurchaseIsChargedOnceAndItsAnswerReplayed,
		"ManyAtOnceWithOneKey":                                      testManyAtOnceWithOneKey,
		"ADeclineIsStoredAndReplayed":                               testADeclineIsStoredAndReplayed,
		"TheStaleHolderWritesNothing":                               testTheStaleHolderWritesNothing,
		"WhatIsNotFinalIsReleasedAndNeverStored":                    testWhatIsNotFinalIsReleasedAndNeverStored,
		"NotSentAfterATakeOverIsUnknown":                            testNotSentAfterATakeOverIsUnknown,
		"AMismatchIsParked":                                         testAMismatchIsParked,
		"ARowThatDiffersIsParked":                                   testARowThatDiffersIsParked,
		"AClientThatHangsUpDuringTheChargeIsChargedOnceAndRecorded": testAClientThatHangsUpDuringTheChargeIsChargedOnceAndRecorded,
		"TooLittleTimeIsRefusedBeforeTheClaim":                      testTooLittleTimeIsRefusedBeforeTheClaim,
		"TheLeaseExceedsTheDeadline":                                testTheLeaseExceedsTheDeadline,
		"WhatTheChargeIsNowIsWhatIsRecorded":                        testWhatTheChargeIsNowIsWhatIsRecorded,
		"EveryStepSurvivesALostStatementAndALostAnswer":             testEveryStepSurvivesALostStatementAndALostAnswer,
		"ALostCommitIsOurOwnAnswer":                                 testALostCommitIsOurOwnAnswer,
		"ACommitThatArrivesLate":                                    testACommitThatArrivesLate,
		"ALostReleaseIsRepeated":                                    testALostReleaseIsRepeated,
		"AClientThatHangsUpDuringTheClaimLeavesNoLock":              testAClientThatHangsUpDuringTheClaimLeavesNoLock,
		"AfterAnAbandonmentNobodyCharges":                           testAfterAnAbandonmentNobodyCharges,
		"ACancelThatComesTooLateMovesNoMoney":                       testACancelThatComesTooLateMovesNoMoney,
		"TheWebhookBeforeTheResponse":                               testTheWebhookBeforeTheResponse,
		"TheWebhookAndTheResponseAtTheSameInstant":                  testTheWebhookAndTheResponseAtTheSameInstant,
		"ASuccessAfterARefusalIsWrittenAndReported":                 testASuccessAfterARefusalIsWrittenAndReported,
		"AnOrderThatIsPaidIsNotPaidUnderAnotherKey":                 testAnOrderThatIsPaidIsNotPaidUnderAnotherKey,
		"WithoutTheGuardTwoKeysPayTwice":                            testWithoutTheGuardTwoKeysPayTwice,
		"WhileAnOrderIsBeingPaidAnotherKeyWaits":                    testWhileAnOrderIsBeingPaidAnotherKeyWaits,
		"ARefusalOrAFailedChargeFreesTheOrder":                      testARefusalOrAFailedChargeFreesTheOrder,
		"ASecondKeySettlesTheFirstWhoseLeaseIsOver":                 testASecondKeySettlesTheFirstWhoseLeaseIsOver,
		"ManyKeysForOneOrderAtOnce":                                 testManyKeysForOneOrderAtOnce,
		"AnOrderThatIsNamedLikeAKeyFoolsNobody":                     testAnOrderThatIsNamedLikeAKeyFoolsNobody,
		"ALostClaimUnderTheGuardIsOurs":                             testALostClaimUnderTheGuardIsOurs,
		"ARefusalIsNotStoredOverAPaymentThatWeHold":                 testARefusalIsNotStoredOverAPaymentThatWeHold,
		"NewsAndARefusalAtTheSameInstantAreNeverSilent":             testNewsAndARefusalAtTheSameInstantAreNeverSilent,
		"ASuccessAfterAFailureIsReported":                           testASuccessAfterAFailureIsReported,
		"AnOrderThatTheRowSaysIsPaidIsNotFreed":                     testAnOrderThatTheRowSaysIsPaidIsNotFreed,
		"AKeyIsNotItsOwnRival":                                      testAKeyIsNotItsOwnRival,
		"AKeyThatIsOlderThanThePSPsMemoryIsNeverSentAgain":          testAKeyThatIsOlderThanThePSPsMemoryIsNeverSentAgain,
		"AKeyWhosePaymentWeHoldIsNotSentAgain":                      testAKeyWhosePaymentWeHoldIsNotSentAgain,
		"AStaleMismatchParksNothing":                                testAStaleMismatchParksNothing,
		"ManyWhoWaitGetTheHoldersAnswerAndCostTheDatabaseLittle":    testManyWhoWaitGetTheHoldersAnswerAndCostTheDatabaseLittle,
		"AWaiterTakesOverWhatTheHolderReleases":                     testAWaiterTakesOverWhatTheHolderReleases,
		"AWaitThatEndsIsTheOrdinaryConflict":                        testAWaitThatEndsIsTheOrdinaryConflict,
		"WaitersOfAParkedKeyAreTold":                                testWaitersOfAParkedKeyAreTold,
		"ACompactedKeyReplaysTheSameBytes":                          testACompactedKeyReplaysTheSameBytes,
		"WhatCannotBeMadeAgainIsKept":                               testWhatCannotBeMadeAgainIsKept,
	}
	for _, form := range []string{"one at a time", coalescing} {
		for name, test := range tests {
			t.Run(form+"/"+name, test)
		}
	}
}

// inForm gives the flow the form that the running test is about.
func inForm(t *testing.T, f *payment.Flow) *payment.Flow {
	if strings.HasPrefix(t.Name(), "TestFlow/"+coalescing) {
		f.Coalesce()
	}
	return f
}
