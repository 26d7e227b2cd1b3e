package phi

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var start = time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)

// regular returns a detector that has heard n heartbeats, and when it heard the last.
func regular(cfg Config, n int) (*Detector, time.Time) {
	d := New(cfg)
	at := start
	for range n {
		d.Heartbeat(at)
		at = at.Add(cfg.Interval)
	}
	return d, at.Add(-cfg.Interval)
}

func TestSilenceUntilSuspicion(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	tests := []struct {
		name         string
		threshold    float64
		phi          func(_, _, _ time.Duration) float64
		mean, stdDev time.Duration
		want         string
	}{
		{"normal distribution, φ 8", 8, Normal, time.Second, 100 * ms, "1.561s"},
		{"normal distribution, φ 12", 12, Normal, time.Second, 100 * ms, "1.703s"},
		{"Akka's approximation, φ 8", 8, Logistic, time.Second, 100 * ms, "1.523s"},
		{"Akka's approximation, φ 12", 12, Logistic, time.Second, 100 * ms, "1.629s"},
		{"twice the deviation, twice the margin", 8, Normal, time.Second, 200 * ms, "2.122s"},
		{"half of the heartbeats are later than the mean", -math.Log10(.5), Normal, time.Second, 100 * ms, "1s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := Silence(tt.threshold, tt.phi, tt.mean, tt.stdDev).Round(ms).String()
			if got != tt.want {
				t.Errorf("suspected after %s, want %s", got, tt.want)
			}
		})
	}
}

func TestPhiAgreesWithItsOtherHalf(t *testing.T) {
	t.Parallel()
	for _, phi := range []func(_, _, _ time.Duration) float64{Normal, Logistic} {
		for deviations := -5; deviations <= 36; deviations++ {
			at := func(d int) float64 { return phi(time.Minute+time.Duration(d)*time.Second, time.Minute, time.Second) }
			if now, later := at(deviations), at(deviations+1); now < 0 || later <= now && !math.IsInf(now, 1) {
				t.Errorf("φ is %v after %d deviations and %v after one more", now, deviations, later)
			}
		}
		if got := phi(time.Second, time.Second, time.Second); math.Abs(got-math.Log10(2)) > 1e-12 {
			t.Errorf("φ at the mean is %v, want log₁₀ 2", got)
		}
	}
}

func TestDetectorIsPatientByAkkasDefaults(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		heartbeats int
		threshold  float64
		want       string
	}{
		{"after one heartbeat it goes by its guess", 1, 8, "5.31s"},
		{"regular heartbeats, φ 8", 1001, 8, "4.52s"},
		{"regular heartbeats, φ 12", 1001, 12, "4.63s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := AkkaCluster()
			cfg.Threshold = tt.threshold
			d, last := regular(cfg, tt.heartbeats)
			patience := d.Patience()
			if got := patience.Round(10 * time.Millisecond).String(); got != tt.want {
				t.Errorf("patience %s, want %s", got, tt.want)
			}
			if d.Suspects(last.Add(patience - time.Millisecond)) {
				t.Error("suspected before its patience ended")
			}
			if !d.Suspects(last.Add(patience)) {
				t.Error("not suspected when its patience ended")
			}
		})
	}
}

func TestDetectorThatHeardNothingSuspectsNobody(t *testing.T) {
	t.Parallel()
	if d := New(AkkaCluster()); d.Suspects(start.Add(time.Hour)) {
		t.Error("a node was suspected before its first heartbeat")
	}
}

func TestOutageTeachesNothing(t *testing.T) {
	t.Parallel()
	d, last := regular(AkkaCluster(), 100)
	before := d.Patience()
	d.Heartbeat(last.Add(time.Minute))
	if after := d.Patience(); after != before {
		t.Errorf("patience was %v and became %v", before, after)
	}
	if d.Suspects(last.Add(time.Minute + time.Second)) {
		t.Error("the node is still suspected, though it was heard")
	}
}

func TestOldIntervalsAreForgotten(t *testing.T) {
	t.Parallel()
	h := history{most: 3}
	for _, s := range []time.Duration{90, 80, 1, 2, 3} {
		h.add(s * time.Second)
	}
	mean, stdDev := h.stats()
	want := []time.Duration{2 * time.Second, 816 * time.Millisecond} // of 1, 2, 3; √(2/3)
	if diff := cmp.Diff(want, []time.Duration{mean, stdDev.Truncate(time.Millisecond)}); diff != "" {
		t.Errorf("mean and standard deviation (-want +got):\n%s", diff)
	}
}
