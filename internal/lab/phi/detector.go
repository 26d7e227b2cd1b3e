// Package phi is the φ accrual failure detector of Hayashibara, Défago, Yared and Katayama (2004), in the variant that Akka uses:
// it doesn't say whether a node is dead, but how little its silence looks like the silences before.
package phi

import (
	"math"
	"time"
)

// Config is how a [Detector] judges. All of it must be positive, but Pause may be 0.
type Config struct {
	// Threshold is the φ from which on a node is suspected.
	Threshold float64
	// MaxSamples is how many intervals between heartbeats are remembered.
	MaxSamples int
	// MinStdDev is the least standard deviation that is reckoned with: very regular heartbeats must not make the detector jumpy.
	MinStdDev time.Duration
	// Pause is a silence that is always forgiven, such as a garbage collection's: it is added to the mean interval.
	Pause time.Duration
	// Interval is how far apart the heartbeats are thought to be before any was seen.
	Interval time.Duration
}

// AkkaCluster returns the defaults of Akka's cluster (akka.cluster.failure-detector). Its documentation advises a threshold of 12
// for machines in a cloud.
func AkkaCluster() Config {
	return Config{Threshold: 8, MaxSamples: 1000, MinStdDev: 100 * time.Millisecond, Pause: 3 * time.Second, Interval: time.Second}
}

// Detector watches one node. It has no clock of its own: the caller says what time it is. Not for concurrent use.
type Detector struct {
	cfg     Config
	history history
	last    time.Time
}

// New returns a detector that has seen no heartbeat yet. It begins with two made-up intervals, a quarter shorter and a quarter
// longer than expected, so that a node that falls silent after its first heartbeat is noticed too.
func New(cfg Config) *Detector {
	d := &Detector{cfg: cfg, history: history{most: cfg.MaxSamples}}
	d.history.add(cfg.Interval * 3 / 4)
	d.history.add(cfg.Interval * 5 / 4)
	return d
}

// Heartbeat notes that the node was heard. An interval that had made the node suspected teaches nothing: one long outage would
// make the detector patient for the next.
func (d *Detector) Heartbeat(at time.Time) {
	if !d.last.IsZero() && !d.Suspects(at) {
		d.history.add(at.Sub(d.last))
	}
	d.last = at
}

// Phi returns the level of suspicion: φ = n says that, by the model, a heartbeat this late still comes once in 10ⁿ times. It is 0
// before the first heartbeat.
func (d *Detector) Phi(at time.Time) float64 {
	if d.last.IsZero() {
		return 0
	}
	mean, stdDev := d.Model()
	return Logistic(at.Sub(d.last), mean, stdDev)
}

// Suspects says whether φ has reached the threshold.
func (d *Detector) Suspects(at time.Time) bool { return d.Phi(at) >= d.cfg.Threshold }

// Model returns the mean, with the pause, and the standard deviation that silence is judged by just now.
func (d *Detector) Model() (mean, stdDev time.Duration) {
	mean, stdDev = d.history.stats()
	return mean + d.cfg.Pause, max(stdDev, d.cfg.MinStdDev)
}

// Patience returns how long the node may be silent, counted from its last heartbeat, before it is suspected.
func (d *Detector) Patience() time.Duration {
	mean, stdDev := d.Model()
	return Silence(d.cfg.Threshold, Logistic, mean, stdDev)
}

// Normal returns φ = −log₁₀(1 − F(silence)), F being the normal distribution.
func Normal(silence, mean, stdDev time.Duration) float64 {
	return -math.Log10(math.Erfc(deviations(silence, mean, stdDev)/math.Sqrt2) / 2)
}

// Logistic returns φ by the approximation of the normal distribution that Akka reckons with, 1/(1 + e^(−y·(1.5976 + 0.070566·y²))).
func Logistic(silence, mean, stdDev time.Duration) float64 {
	y := deviations(silence, mean, stdDev)
	e := math.Exp(-y * (1.5976 + 0.070566*y*y))
	if y > 0 {
		return -math.Log10(e / (1 + e))
	}
	return -math.Log10(1 - 1/(1+e))
}

func deviations(silence, mean, stdDev time.Duration) float64 {
	return float64(silence-mean) / float64(stdDev)
}

// Silence returns after how long a silence φ reaches a threshold, to the microsecond; by bisection, for φ grows with the silence.
// Beyond 38 deviations φ is infinite in a float64, so it never takes longer.
func Silence(threshold float64, phi func(silence, mean, stdDev time.Duration) float64, mean, stdDev time.Duration) time.Duration {
	short, long := time.Duration(0), mean+40*stdDev
	for long-short > time.Microsecond {
		if middle := (short + long) / 2; phi(middle, mean, stdDev) < threshold {
			short = middle
		} else {
			long = middle
		}
	}
	return long
}
