package lab

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWatchedTrace(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	trace := []beat{{0, 10 * ms}, {1000 * ms, 1030 * ms}, {2000 * ms, 2500 * ms}, {3000 * ms, 3010 * ms}}
	tests := []struct {
		patience time.Duration
		want     watched
	}{
		// It hears the first three, and waits for the fourth: 10 + 1200, 30 + 1200, 500 + 1200.
		{1200 * ms, watched{beats: 3, wrong: 1, detection: 4140 * ms}},
		{1470 * ms, watched{beats: 3, wrong: 0, detection: 4950 * ms}},
	}
	for _, tt := range tests {
		got := watch(fixed(tt.patience), trace)
		if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(watched{})); diff != "" {
			t.Errorf("patience %v (-want +got):\n%s", tt.patience, diff)
		}
	}
}

func TestTraceIsInOrderAndOfItsSeed(t *testing.T) {
	t.Parallel()
	// Delays far longer than the interval, so that heartbeats would overtake one another.
	rough := link{"rough", 5 * time.Second, 5 * time.Second}
	draw := func(seed uint64) []beat { return rough.trace(rand.New(rand.NewPCG(seed, 0)), 1000, time.Second) }
	trace := draw(1)
	for i := 1; i < len(trace); i++ {
		if trace[i].arrived < trace[i-1].arrived || trace[i].arrived < trace[i].sent {
			t.Fatalf("heartbeat %d was sent at %v and arrived at %v, the one before it at %v", i, trace[i].sent, trace[i].arrived,
				trace[i-1].arrived)
		}
	}
	same := cmp.AllowUnexported(beat{})
	if !cmp.Equal(trace, draw(1), same) || cmp.Equal(trace, draw(2), same) {
		t.Error("the seed does not decide the trace")
	}
}

func TestQuickestErrsNoMoreOftenThanAsked(t *testing.T) {
	t.Parallel()
	settings := []watched{{10, 5, 10 * time.Second}, {10, 2, 30 * time.Second}, {10, 1, 20 * time.Second}, {10, 0, 40 * time.Second}}
	for wrong, want := range map[int]watched{9: settings[0], 4: settings[2], 0: settings[3], -1: {}} {
		if got := quickest(settings, wrong); got != want {
			t.Errorf("of those that err at most %d times: %+v, want %+v", wrong, got, want)
		}
	}
}
