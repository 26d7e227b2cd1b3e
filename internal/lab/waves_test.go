package lab

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The clock is a fake one, so the machine adds nothing.
func TestWaitsThatAreAlikeKeepTheWaveWhole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := waveNumbers{Clients: 100, Retries: 5, Window: 100 * time.Millisecond}
		c := backoffCurve{100 * time.Millisecond, time.Minute}
		for _, tt := range []struct {
			p    policy
			want []int // the first and the last peak
		}{
			{fixedWait(time.Second), []int{100, 100}},
			{exponentialWait(c), []int{100, 100}},
		} {
			tries, err := n.byPolicy(t.Context(), tt.p, 1)
			w := wave{tries: tries}
			if got := []int{w.peak(1, n.Window), w.peak(5, n.Window)}; err != nil || !cmp.Equal(got, tt.want) {
				t.Errorf("%s: %v, %v", tt.p.name, got, err)
			}
		}
		// Jitter: the range of retry 5 is sixteen times that of retry 1.
		tries, err := n.byPolicy(t.Context(), fullJitter(c), 1)
		if w := (wave{tries: tries}); err != nil || w.peak(1, n.Window) < 95 || w.peak(5, n.Window) > 25 {
			t.Errorf("full jitter: %d at retry 1 and %d at retry 5, %v", w.peak(1, n.Window), w.peak(5, n.Window), err)
		}
	})
}

func TestTriesAreReadInTheClientsLog(t *testing.T) {
	t.Parallel()
	began := time.Now()
	seen := newTries(2, 2)
	log := func(client any, message string, attempt int, after time.Duration) {
		r := slog.NewRecord(began.Add(after), slog.LevelInfo, message, 0)
		r.AddAttrs(slog.String("operation", "charge"), slog.Int("attempt", attempt))
		if err := seen.Handle(context.WithValue(t.Context(), clientNumber{}, client), r); err != nil {
			t.Error(err)
		}
	}
	log(0, "psp retry", 1, 5)
	log(1, "psp retry", 1, 7)
	log(1, "psp call given up", 2, 10)
	log(0, "psp call given up", 2, 11)
	log(0, "something else", 1, 20)
	log("nobody", "psp retry", 1, 20)
	if diff := cmp.Diff([][]time.Duration{{0, 0}, {3, 6}}, seen.moments); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
