package server_test

import (
	"context"
	"net/http"
	"testing"

	"chargeonce/internal/payment"
	"chargeonce/internal/psp"
)

// latePanic is a PSP client that has a fault once it is let go on.
type latePanic struct {
	payment.PSP
	release chan struct{}
}

func (l latePanic) Charge(context.Context, psp.ChargeRequest) psp.Result {
	<-l.release
	panic("a late fault of ours")
}

// A purchase goes on when its caller's time is over, and what then becomes of it must not be known to nobody.
func TestAPurchaseThatEndsInAFaultAfterItsCallersTimeIsLogged(t *testing.T) {
	t.Parallel()
	provider := latePanic{release: make(chan struct{})}
	e := newEnv(t, options{fake: provider})
	header := e.header(unique("late"))
	header.Set("Grpc-Timeout", "300m")
	got := e.rest(http.MethodPost, "/payments", header, `{"order_id":"o-late","amount":1,"currency":"EUR","payment_method":"tok_visa"}`)
	if got.HTTP != http.StatusGatewayTimeout {
		t.Errorf("%d %s", got.HTTP, got.Body)
	}
	close(provider.release)
	var line map[string]any
	e.until("the fault is logged", func() bool {
		line = findLogged(t, got.Header.Get("X-Trace-Id"), "a purchase ended after its caller's time")
		return line != nil
	})
	if line["level"] != "ERROR" || line["panic"] != "a late fault of ours" || line["payment_id"] == nil {
		t.Errorf("%v", line)
	}
}
