package bench

import (
	"runtime"
	"time"
)

// Report is what a run measured, as `--json` writes it.
type Report struct {
	Machine Machine `json:"machine"`
	MySQL   MySQL   `json:"mysql"`
	// Flags are the server's with the most in flight.
	Flags []string `json:"server_flags"`
	// Results are the measurements that start with empty tables, Stocks those with full ones.
	Results []Result `json:"results"`
	Stocks  []Stock  `json:"stocks,omitempty"`
	// PSPAlone is what a charge takes at the PSP by itself, for each of the conditions.
	PSPAlone []PSPAlone `json:"psp_alone"`
	Aims     []Aim      `json:"aims"`
}

// Machine is what everything, the load too, ran on.
type Machine struct {
	OS   string    `json:"os"`
	Arch string    `json:"arch"`
	CPUs int       `json:"cpus"`
	Go   string    `json:"go"`
	At   time.Time `json:"at"`
}

func thisMachine() Machine {
	return Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version(), At: time.Now().UTC().Truncate(time.Second)}
}

// Where is what was measured, and under what.
type Where struct {
	Face     Face `json:"face"`
	Coalesce bool `json:"coalesce"`
	InFlight int  `json:"in_flight"`
	// PSPMillis is how long the PSP takes; 0: it answers at once.
	PSPMillis float64 `json:"psp_ms"`
	Webhooks  bool    `json:"webhooks"`
}

func (w Where) form() Form { return Form{w.Face, w.Coalesce} }

func (w Where) condition() Condition {
	return Condition{time.Duration(w.PSPMillis * float64(time.Millisecond)), w.Webhooks}
}

// Quantiles are of times, in milliseconds.
type Quantiles struct {
	P50  float64 `json:"p50_ms"`
	P99  float64 `json:"p99_ms"`
	P999 float64 `json:"p999_ms"`
}

func quantiles(s sample) Quantiles {
	return Quantiles{millis(quantile(s.took, 0.5)), millis(quantile(s.took, 0.99)), millis(quantile(s.took, 0.999))}
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Rate is what a closed loop came to.
type Rate struct {
	PerSecond float64 `json:"per_second"`
	Quantiles
}

func rateOf(s sample, w window) Rate {
	return Rate{PerSecond: float64(s.done) / w.length().Seconds(), Quantiles: quantiles(s)}
}

// Result is one form at one number in flight under one condition.
type Result struct {
	Where
	// Closed is of a load that keeps that many in flight; its rate is the throughput.
	Closed Rate `json:"closed_loop"`
	// Ratio is the throughput over that of the bare SQL at the same number in flight, measured just before; 0: it was not measured.
	Ratio float64 `json:"times_ceiling,omitempty"`
	// OpenRate is the arrivals per second at which Open was measured, from the moment that each was due.
	OpenRate float64   `json:"open_loop_per_second"`
	Open     Quantiles `json:"open_loop"`
	// CPU is the microseconds that each process took for a payment, in the closed loop.
	CPU map[string]float64 `json:"cpu_us_per_payment"`
	// PeakBytes is the most memory that the server had in RAM; 0: unknown, or no server.
	PeakBytes int64 `json:"server_peak_rss_bytes,omitempty"`
	// Refused counts by reason the answers that said to come again.
	Refused map[string]int64 `json:"refused,omitempty"`
	Books   books            `json:"books"`
}

// Stock is one form on tables that held Keys keys before.
type Stock struct {
	Where
	Keys     int              `json:"keys"`
	Payments Rate             `json:"payments"`
	Ratio    float64          `json:"times_ceiling,omitempty"`
	Replays  Rate             `json:"replays"`
	Conflict Rate             `json:"in_progress"`
	Refused  map[string]int64 `json:"refused,omitempty"`
	Books    books            `json:"books"`
}

// PSPAlone is what the PSP takes under a condition for a charge by itself.
type PSPAlone struct {
	PSPMillis float64 `json:"psp_ms"`
	Quantiles
}

// cpuPerPayment spreads what the processes used over the payments; nil when there were none.
func cpuPerPayment(used map[string]time.Duration, payments int) map[string]float64 {
	if payments == 0 {
		return nil
	}
	out := make(map[string]float64, len(used))
	for name, t := range used {
		out[name] = float64(t.Microseconds()) / float64(payments)
	}
	return out
}
