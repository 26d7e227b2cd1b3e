package idempotency

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
)

// traceparent names the trace that ctx is part of, as the row keeps it; nil for none.
func traceparent(ctx context.Context) any {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	if value, ok := carrier["traceparent"]; ok {
		return value
	}
	return nil
}
