package gatewaysim_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	gatewaysim "chargeonce/gateway-sim"
)

// chargeKeys returns a source of keys that look random, as the product's are.
func chargeKeys() func() string {
	var n atomic.Uint64
	return func() string {
		i := n.Add(1)
		return fmt.Sprintf("%016x%016x", i*0x9e3779b97f4a7c15, i)
	}
}

// BenchmarkCharge makes new charges over HTTP, 64 at a time. The caller's share is in its numbers.
func BenchmarkCharge(b *testing.B) {
	psp := gatewaysim.Start(b, gatewaysim.Config{})
	c := callerOf(b, psp.URL)
	body, key := chargeBody("tok_visa"), chargeKeys()
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if r := c.do(b.Context(), "POST", "/charges", body, "Idempotency-Key: "+key()); r.status != 201 {
				b.Errorf("answer %d %s (error %v)", r.status, r.body, r.err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "charges/s")
}

// BenchmarkChargeHandler makes new charges with no network: what the simulator itself adds to net/http.
func BenchmarkChargeHandler(b *testing.B) {
	psp := gatewaysim.Start(b, gatewaysim.Config{})
	handler, body, key := psp.Handler(), chargeBody("tok_visa"), chargeKeys()
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest(http.MethodPost, "/charges", strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+psp.APIKey)
		r.Header.Set("Idempotency-Key", key())
		w := httptest.NewRecorder()
		if handler.ServeHTTP(w, r); w.Code != http.StatusCreated {
			b.Fatalf("answer %d %s", w.Code, w.Body)
		}
	}
}

// BenchmarkOpen opens a file of 10,000 charges, as a process does that takes over from one that was killed.
func BenchmarkOpen(b *testing.B) {
	const charges = 10_000
	path := b.TempDir() + "/psp.db"
	psp := gatewaysim.Start(b, gatewaysim.Config{Path: path})
	c, key := callerOf(b, psp.URL), chargeKeys()
	for range charges {
		if r := c.charge(key()); r.status != 201 {
			b.Fatalf("answer %d %s (error %v)", r.status, r.body, r.err)
		}
	}
	if err := psp.Stop(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		sim, err := gatewaysim.Open(gatewaysim.Config{Path: path, APIKey: gatewaysim.DemoAPIKey})
		if err != nil {
			b.Fatal(err)
		}
		if err := sim.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
