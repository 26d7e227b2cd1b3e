package lab

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/internal/psp"
)

var timeoutExperiment = with(Experiment{
	Name:  "timeout",
	Title: "How long the PSP takes, and the attempt time-out that an accepted rate of false time-outs implies",
	Shows: `A time-out is chosen by what it may cost: accept a share of calls, such as 0.1 %, that would have been answered and are
cut all the same. The time-out is then the latency that this share exceeds, as measured from where the calls are made, connecting
included: for 0.1 % the p99.9. Shorter, and healthy calls are cut; longer, and each call to a PSP that hangs holds its caller for
nothing.`,
	Ours:  true,
	Bound: 5 * time.Minute,
	Code:  []string{"internal/psp/config.go", "gateway-sim/latency.go"},
}, timeoutFull, timeoutSmall, runTimeout)

// timeoutNumbers are the PSP and the calls.
type timeoutNumbers struct {
	Latency   string  `help:"How long the simulated PSP takes: \"fixed 50ms\", \"uniform 10ms 100ms\" or \"lognormal p50 80ms p99.9 1.2s\"."`
	Calls     int     `help:"Calls to measure." max:"200000"`
	AtOnce    int     `help:"Calls under way at once." max:"256"`
	FalseRate float64 `help:"Share of healthy calls that may be cut by the time-out."`
}

// timeoutFull has enough calls for ten to lie beyond the p99.9.
var (
	timeoutFull  = timeoutNumbers{Latency: "lognormal p50 80ms p99.9 1.2s", Calls: 10_000, AtOnce: 64, FalseRate: 0.001}
	timeoutSmall = timeoutNumbers{Latency: timeoutFull.Latency, Calls: 300, AtOnce: 64, FalseRate: 0.001}
)

// Validate reports numbers that cannot be measured with.
func (n timeoutNumbers) Validate() error {
	if !(n.FalseRate > 0 && n.FalseRate < 1) {
		return fmt.Errorf("--false-rate %v: want more than 0 and less than 1", n.FalseRate)
	}
	if _, err := n.latency(); err != nil {
		return fmt.Errorf("--latency: %w", err)
	}
	return nil
}

func (n timeoutNumbers) latency() (l gatewaysim.Latency, err error) {
	if err := l.UnmarshalText([]byte(n.Latency)); err != nil {
		return l, err
	}
	return l, l.Validate()
}

// measuringTimeout is the attempt time-out while the latency is measured: far beyond what is looked for.
const measuringTimeout = 30 * time.Second

// runTimeout measures with the service's own client, connections warmed as the service warms them.
func runTimeout(ctx context.Context, env Env, o Options, m timeoutNumbers) (r Report, err error) {
	latency, err := m.latency()
	if err != nil {
		return r, err
	}
	var took []time.Duration
	err = env.withPSP(ctx, func(s *site) error {
		if err := s.psp.fresh(ctx, gatewaysim.Faults{Seed: o.Seed, Latency: latency}); err != nil {
			return err
		}
		c, _, err := s.pspClient(psp.Config{
			MaxAttempts: 1, AttemptTimeout: measuringTimeout, BreakerOff: true, Slots: m.AtOnce, SlotWait: measuringTimeout,
		})
		if err != nil {
			return err
		}
		defer c.Close()
		warm(ctx, c)
		took, err = m.measure(ctx, c)
		return err
	})
	if err != nil {
		return r, err
	}
	slices.Sort(took)
	m.report(&r, took)
	return r, nil
}

func (m timeoutNumbers) measure(ctx context.Context, c *psp.Client) ([]time.Duration, error) {
	var mu sync.Mutex
	took := make([]time.Duration, 0, m.Calls)
	err := crowd(ctx, m.Calls, m.AtOnce, func(ctx context.Context, i int) error {
		start := time.Now()
		res := c.Charge(ctx, chargeRequest(fmt.Sprintf("timeout-%d", i)))
		d := time.Since(start)
		if res.Kind != psp.Succeeded {
			return fmt.Errorf("call %d: %s: %w", i, res.Kind, res.Err)
		}
		mu.Lock()
		defer mu.Unlock()
		took = append(took, d)
		return nil
	})
	return took, err
}

// report takes the latencies in order.
func (m timeoutNumbers) report(r *Report, sorted []time.Duration) {
	n := len(sorted)
	t := Table{Title: fmt.Sprintf("%d calls, %d at once, PSP: %s", n, m.AtOnce, m.Latency),
		Columns: []string{"", "latency", "95 % sure within", "calls beyond it"}}
	row := func(name string, q float64) {
		low, high := interval(sorted, q)
		t.add(name, ms(sorted[rank(n, q)]), low+" to "+high, fmt.Sprint(n-1-rank(n, q)))
	}
	row("p50", .5)
	row("p99", .99)
	row("p99.9", .999)
	wanted := 1 - m.FalseRate
	row(fmt.Sprintf("attempt time-out for %s %% false time-outs", percent(m.FalseRate)), wanted)
	r.Tables = append(r.Tables, t, histogram(sorted))
	if beyond := float64(n) * m.FalseRate; beyond < 10 {
		r.Notes = append(r.Notes, fmt.Sprintf(
			"Only %.1f of these calls are expected beyond the time-out: make at least %.0f for a figure to act on.",
			beyond, math.Ceil(10/m.FalseRate)))
	}
	r.Notes = append(r.Notes, fmt.Sprintf("The slow mark of the breaker must lie above the p99, %s, and below the time-out.",
		ms(sorted[rank(n, .99)])))
	r.equal("calls measured", int64(m.Calls), int64(n))
}

func percent(share float64) string { return fmt.Sprintf("%g", math.Round(share*1e8)/1e6) }

// interval is the 95 % confidence interval of a quantile: the values at the ranks n·q ± 1.96·√(n·q·(1−q)), from the normal
// approximation of the binomial distribution. An end beyond the values is unknown.
func interval(sorted []time.Duration, q float64) (low, high string) {
	n := float64(len(sorted))
	spread := 1.96 * math.Sqrt(n*q*(1-q))
	at := func(r float64) string {
		if i := int(r) - 1; i >= 0 && i < len(sorted) {
			return ms(sorted[i])
		}
		return "?"
	}
	return at(math.Floor(n*q - spread)), at(math.Ceil(n*q+spread) + 1)
}
