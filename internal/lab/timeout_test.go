package lab

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chargeonce/internal/psp"
	"chargeonce/internal/rig"
)

// upTo gives 1 ms, 2 ms, … n ms.
func upTo(n int) []time.Duration {
	out := make([]time.Duration, n)
	for i := range out {
		out[i] = time.Duration(i+1) * time.Millisecond
	}
	return out
}

func TestTimeoutIsTheLatencyThatTheFalseRateExceeds(t *testing.T) {
	t.Parallel()
	m := timeoutNumbers{Latency: "uniform 1ms 10s", Calls: 10_000, AtOnce: 64, FalseRate: 0.002}
	var r Report
	m.report(&r, upTo(10_000))
	want := [][]string{
		{"p50", "5000 ms", "4902 ms to 5099 ms", "5000"},
		{"p99", "9900 ms", "9880 ms to 9921 ms", "100"},
		{"p99.9", "9990 ms", "9983 ms to 9998 ms", "10"},
		{"attempt time-out for 0.2 % false time-outs", "9980 ms", "9971 ms to 9990 ms", "20"},
	}
	if diff := cmp.Diff(want, r.Tables[0].Rows); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"The slow mark of the breaker must lie above the p99, 9900 ms, and below the time-out."}, r.Notes); diff != "" {
		t.Error(diff)
	}
}

func TestTooFewCallsAreSaidToBeTooFew(t *testing.T) {
	t.Parallel()
	m := timeoutNumbers{Latency: "fixed 1ms", Calls: 100, AtOnce: 1, FalseRate: 0.001}
	var r Report
	m.report(&r, upTo(100))
	if len(r.Notes) == 0 || !strings.HasPrefix(r.Notes[0], "Only 0.1 of these calls are expected beyond the time-out: make at least 10000") {
		t.Errorf("%q", r.Notes)
	}
	if low, high := interval(upTo(100), .999); low != "99 ms" || high != "?" {
		t.Errorf("the p99.9 of 100 calls is said to lie within %s to %s", low, high)
	}
}

func TestMeasurementThatCannotBeMadeIsRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*timeoutNumbers)
		says   string
	}{
		"no false rate":   {func(n *timeoutNumbers) { n.FalseRate = 0 }, "--false-rate 0: want more than 0 and less than 1"},
		"all false":       {func(n *timeoutNumbers) { n.FalseRate = 1 }, "--false-rate 1: want more than 0 and less than 1"},
		"no distribution": {func(n *timeoutNumbers) { n.Latency = "normal 1ms" }, `--latency: `},
	}
	for name, tt := range tests {
		n := timeoutFull
		tt.change(&n)
		if _, err := timeoutExperiment.Run(t.Context(), Env{}, Options{Numbers: n}); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		}
	}
}

func TestHistogramHasRangesOfHalfAnOctave(t *testing.T) {
	t.Parallel()
	values := []time.Duration{900 * time.Microsecond, time.Millisecond, 1001 * time.Microsecond, 4 * time.Millisecond}
	want := [][]string{
		{"1.00 ms", "2", "50.00 %", strings.Repeat("█", 50)},
		{"1.41 ms", "1", "25.00 %", strings.Repeat("█", 25)},
		{"2.00 ms", "0", "0.00 %", ""},
		{"2.83 ms", "0", "0.00 %", ""},
		{"4.00 ms", "0", "0.00 %", ""},
		{"5.66 ms", "1", "25.00 %", strings.Repeat("█", 25)},
	}
	if diff := cmp.Diff(want, histogram(values).Rows); diff != "" {
		t.Error(diff)
	}
	if got := bar(1, 1000); got != "·" {
		t.Errorf("one of a thousand is drawn as %q", got)
	}
	if rows := histogram(nil).Rows; len(rows) != 0 {
		t.Errorf("a histogram of nothing has the rows %q", rows)
	}
}

// TestChangesAreReadFromTheLogOfTheClient holds the two ends of the log line together.
func TestChangesAreReadFromTheLogOfTheClient(t *testing.T) {
	t.Parallel()
	// Nobody listens on port 1.
	s := &site{psp: &provider{sim: rig.NewPSP("http://127.0.0.1:1")}}
	c, seen, err := s.pspClient(psp.Config{MaxAttempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 5 {
		c.Charge(t.Context(), chargeRequest("k"))
	}
	got := seen.list()
	if len(got) != 1 || got[0].to != "open" || trace(nil) != "stays closed" || !strings.HasSuffix(trace(got), " s open") {
		t.Errorf("%v: %q", got, trace(got))
	}
}
