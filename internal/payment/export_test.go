package payment

import (
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// Waiting counts those who wait for a key.
func Waiting(f *Flow) int {
	f.watches.mu.Lock()
	defer f.watches.mu.Unlock()
	n := 0
	for _, w := range f.watches.byID {
		n += w.waiting
	}
	return n
}

// WaitingToFinish counts the finishes that wait for a worker.
func WaitingToFinish(f *Flow) int { return f.together.queue.Len() }

// Observe has the flow tell this meter and this tracer, in place of the global ones.
func Observe(f *Flow, m metric.Meter, t trace.Tracer) { f.observe = newObserver(m, t) }
