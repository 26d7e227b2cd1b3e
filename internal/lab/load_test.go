package lab

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPacedLoadDoesNotWaitForAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		begun := make([]time.Duration, 4)
		late, err := paced(t.Context(), 4, 20*time.Millisecond, func(i int) {
			begun[i] = time.Since(start)
			<-time.After(time.Second) // of the fake clock
		})
		want := []time.Duration{0, 20 * time.Millisecond, 40 * time.Millisecond, 60 * time.Millisecond}
		if diff := cmp.Diff(want, begun); diff != "" || err != nil || late != 0 {
			t.Errorf("late %v, %v\n%s", late, err, diff)
		}
		if took := time.Since(start); took != 1060*time.Millisecond {
			t.Errorf("returned after %v, want when the last has ended, 1.06s", took)
		}
	})
}

func TestPacedLoadEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		var made atomic.Int64
		_, err := paced(ctx, 1000, 20*time.Millisecond, func(int) { made.Add(1) })
		if !errors.Is(err, context.DeadlineExceeded) || made.Load() != 3 {
			t.Errorf("%v after %d", err, made.Load())
		}
	})
}

func TestCrowdIsNeverWiderThanItMayBe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g gauge
		done := make([]atomic.Int64, 10)
		err := crowd(t.Context(), len(done), 4, func(_ context.Context, i int) error {
			g.enter()
			defer g.leave()
			<-time.After(time.Second) // of the fake clock
			done[i].Add(1)
			return nil
		})
		if err != nil || g.most != 4 || g.now != 0 {
			t.Errorf("%v; %d at once at most, %d still inside", err, g.most, g.now)
		}
		for i := range done {
			if n := done[i].Load(); n != 1 {
				t.Errorf("number %d was done %d times", i, n)
			}
		}
	})
}

func TestCrowdEndsAtTheFirstError(t *testing.T) {
	t.Parallel()
	errBroken := errors.New("broken")
	var made atomic.Int64
	err := crowd(t.Context(), 100, 1, func(ctx context.Context, i int) error {
		made.Add(1)
		if i == 2 {
			return errBroken
		}
		return nil
	})
	if !errors.Is(err, errBroken) || made.Load() != 3 {
		t.Errorf("%v after %d", err, made.Load())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := crowd(ctx, 1, 1, func(context.Context, int) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
}

func TestQuantileIsByNearestRank(t *testing.T) {
	t.Parallel()
	tests := []struct {
		values []time.Duration
		q      float64
		want   time.Duration
	}{
		{nil, .5, 0},
		{[]time.Duration{7}, .5, 7},
		{[]time.Duration{7}, 0, 7},
		{[]time.Duration{3, 1, 2}, .5, 2},
		{[]time.Duration{4, 3, 2, 1}, .5, 2},
		{[]time.Duration{4, 3, 2, 1}, .51, 3},
		{[]time.Duration{4, 3, 2, 1}, .99, 4},
		{[]time.Duration{4, 3, 2, 1}, 1, 4},
	}
	for _, tt := range tests {
		if got := quantile(tt.values, tt.q); got != tt.want {
			t.Errorf("quantile(%v, %v) = %d, want %d", tt.values, tt.q, got, tt.want)
		}
	}
}
