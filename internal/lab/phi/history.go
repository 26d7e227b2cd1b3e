package phi

import (
	"math"
	"time"
)

// history holds the last intervals between heartbeats, at most most of them, and their sums, so that a heartbeat costs the same
// however many are remembered.
type history struct {
	most         int
	intervals    []float64 // seconds; a ring once it is full
	oldest       int
	sum, squares float64
}

func (h *history) add(interval time.Duration) {
	s := interval.Seconds()
	if len(h.intervals) < h.most {
		h.intervals = append(h.intervals, s)
	} else {
		gone := h.intervals[h.oldest]
		h.sum -= gone
		h.squares -= gone * gone
		h.intervals[h.oldest] = s
		h.oldest = (h.oldest + 1) % h.most
	}
	h.sum += s
	h.squares += s * s
}

// stats returns the mean and the standard deviation of the intervals that are remembered.
func (h *history) stats() (mean, stdDev time.Duration) {
	n := float64(len(h.intervals))
	m := h.sum / n
	// Rounding may leave a variance of regular intervals a little below 0.
	variance := max(0, h.squares/n-m*m)
	return inSeconds(m), inSeconds(math.Sqrt(variance))
}

func inSeconds(s float64) time.Duration { return time.Duration(math.Round(s * float64(time.Second))) }
