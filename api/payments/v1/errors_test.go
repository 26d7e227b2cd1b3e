package paymentsv1_test

import (
	"testing"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/protobuf/proto"

	paymentsv1 "chargeonce/api/payments/v1"
)

// A reason without its row would be an error that tells a client nothing.
func TestEveryReasonHasARowThatHoldsTogether(t *testing.T) {
	t.Parallel()
	values := paymentsv1.Reason(0).Descriptor().Values()
	for i := range values.Len() {
		value := values.Get(i)
		if value.Number() == 0 {
			continue
		}
		row := proto.GetExtension(value.Options(), paymentsv1.E_Problem).(*paymentsv1.Problem)
		if row.GetHttpStatus() < 400 || row.GetHttpStatus() > 599 {
			t.Errorf("%s: HTTP status %d is no error", value.Name(), row.GetHttpStatus())
		}
		if row.GetNextAction() == paymentsv1.NextAction_NEXT_ACTION_UNSPECIFIED {
			t.Errorf("%s: no next action", value.Name())
		}
		if row.GetStored() && row.GetNextAction() != paymentsv1.NextAction_NEW_KEY {
			t.Errorf("%s: the key has its final answer, and yet the client is not told to take a new one", value.Name())
		}
		if row.GetHttpStatus() >= 500 && row.GetNextAction() != paymentsv1.NextAction_RETRY_SAME_KEY {
			t.Errorf("%s: the outcome of a %d is unknown; only the same key is safe", value.Name(), row.GetHttpStatus())
		}
		if row.GetGrpcCode() == code.Code_UNKNOWN {
			t.Errorf("%s: UNKNOWN tells a client nothing", value.Name())
		}
	}
}
