package gatewaysim_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	gatewaysim "chargeonce/gateway-sim"
)

// BenchmarkCharge makes new charges over HTTP, 64 at a time, each with a random-looking key as the product's are.
func BenchmarkCharge(b *testing.B) {
	psp := gatewaysim.Start(b, gatewaysim.Config{})
	c := callerOf(b, psp.URL)
	var n atomic.Uint64
	body := chargeBody("tok_visa")
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			key := fmt.Sprintf("%016x%016x", n.Add(1)*0x9e3779b97f4a7c15, n.Load())
			if r := c.do(b.Context(), "POST", "/charges", body, "Idempotency-Key: "+key); r.status != 201 {
				b.Errorf("answer %d %s (error %v)", r.status, r.body, r.err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "charges/s")
}
