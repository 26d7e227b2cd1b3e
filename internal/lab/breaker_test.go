package lab

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWaitingCallersAreDrawnOverTime(t *testing.T) {
	t.Parallel()
	n := breakerNumbers{Requests: 2, PerSecond: 1, HangFor: 80 * time.Second, Timeout: time.Second}
	b := breakerRun{load: load{calls: []asked{{at: 0, took: 2500 * time.Millisecond}, {at: time.Second, took: time.Second}}}}
	p := n.plot(b)
	want := []Series{{Name: "direct", X: []float64{0, 1, 2, 3}, Y: []float64{1, 2, 1, 0}}}
	if diff := cmp.Diff(want, p.Series); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
