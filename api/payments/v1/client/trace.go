package client

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
)

// inject sets what names ctx's trace to the service, by the process's propagator. A process that has set none sends nothing. A span for
// each try is the caller's to have, by a [Config.HTTP] or [Config.Conn] that is instrumented; what that sets replaces this.
func inject(ctx context.Context, set func(name, value string)) {
	carrier := propagation.MapCarrier{}
	otel.GetTextMapPropagator().Inject(ctx, carrier)
	for name, value := range carrier {
		set(name, value)
	}
}
