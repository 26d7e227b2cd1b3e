package psp

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/internal/telemetry"
)

func TestProbeTellsAPSPThatTakesOurKey(t *testing.T) {
	t.Parallel()
	sim := gatewaysim.Start(t, gatewaysim.Config{})
	for key, want := range map[string]struct {
		status   int
		accepted bool
	}{
		sim.APIKey: {http.StatusNotFound, true},
		"wrong":    {http.StatusUnauthorized, false},
	} {
		c, err := New(Config{BaseURL: sim.URL, APIKey: telemetry.Secret(key)})
		if err != nil {
			t.Fatal(err)
		}
		p, err := c.Probe(within(t, 20*time.Second))
		c.Close()
		if err != nil || p.Status != want.status || p.Accepted != want.accepted || p.Took <= 0 || time.Since(p.Date).Abs() > time.Minute {
			t.Errorf("%s: %+v, %v", key, p, err)
		}
	}
	if n := len(sim.Stats().Keys); n != 0 {
		t.Errorf("it left %d keys behind", n)
	}
}

func TestProbeOfWhatIsNoPSP(t *testing.T) {
	t.Parallel()
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Date"] = nil
		w.WriteHeader(http.StatusNotFound)
		if _, err := fmt.Fprint(w, "<html>not here</html>"); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(page.Close)
	p, err := serverClient(t, page.URL, Config{}).Probe(within(t, 20*time.Second))
	if err != nil || p.Accepted || p.Status != http.StatusNotFound || !p.Date.IsZero() {
		t.Errorf("a web page: %+v, %v", p, err)
	}
	if p, err := serverClient(t, closedAddress(t), Config{}).Probe(within(t, 20*time.Second)); err == nil {
		t.Errorf("nobody: %+v", p)
	}
}
