package reconcile

import "go.opentelemetry.io/otel/trace"

// Trace has passes and their keys traced by t in place of the global tracer.
func (r *Reconciler) Trace(t trace.Tracer) { r.tracer = t }
