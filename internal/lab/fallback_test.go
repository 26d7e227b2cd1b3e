package lab

import (
	"net/http"
	"testing"

	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/internal/psp"
)

func TestAPageWithoutAFallbackFailsAsItsDependencyDoes(t *testing.T) {
	t.Parallel()
	sim := gatewaysim.Start(t, gatewaysim.Config{})
	c, err := psp.New(psp.Config{BaseURL: sim.URL, APIKey: gatewaysim.DemoAPIKey, MaxAttempts: 1, BreakerOff: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	made := c.Charge(t.Context(), chargeRequest("page"))
	if made.Kind != psp.Succeeded {
		t.Fatalf("%s: %v", made.Kind, made.Err)
	}
	for _, tt := range []struct {
		name           string
		fallback, down bool
		status         int
		widget         string
	}{
		{"well", false, false, http.StatusOK, widgetShown},
		{"well, fallback", true, false, http.StatusOK, widgetShown},
		{"down", false, true, http.StatusBadGateway, ""},
		{"down, fallback", true, true, http.StatusOK, widgetHidden},
	} {
		var faults gatewaysim.Faults
		if tt.down {
			faults.Rules = []gatewaysim.Rule{{Fault: gatewaysim.ErrorAnswer, Match: onReceipts()}}
		}
		if err := sim.SetFaults(faults); err != nil {
			t.Fatal(err)
		}
		page, err := serveOrderPage(&orderPage{psp: c, charge: made.Charge.ID, fallback: tt.fallback})
		if err != nil {
			t.Fatal(err)
		}
		v, err := page.visit(t.Context())
		if err != nil || v.status != tt.status || v.widget != tt.widget {
			t.Errorf("%s: %d %q, %v; want %d %q", tt.name, v.status, v.widget, err, tt.status, tt.widget)
		}
		if err := page.close(); err != nil {
			t.Error(err)
		}
	}
}
