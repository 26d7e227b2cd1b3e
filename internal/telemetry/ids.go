package telemetry

import (
	"context"
	"encoding/binary"
	"math/rand/v2"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
	"go.opentelemetry.io/otel/trace/noop"
)

// idProvider makes spans when nobody collects them: they record nothing. Work that arrives without a trace gets an id, so that its
// log lines and its response name one; work that belongs to a trace already is passed on as it came, which costs nothing.
type idProvider struct{ embedded.TracerProvider }

// Tracer implements trace.TracerProvider.
func (p idProvider) Tracer(string, ...trace.TracerOption) trace.Tracer { return idTracer{} }

type idTracer struct{ noop.Tracer }

// Start implements trace.Tracer.
func (idTracer) Start(ctx context.Context, _ string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	span := trace.SpanFromContext(ctx)
	if span.SpanContext().IsValid() && !newRoot(opts) {
		return ctx, span
	}
	ctx = trace.ContextWithSpanContext(ctx, mint())
	return ctx, trace.SpanFromContext(ctx)
}

func newRoot(opts []trace.SpanStartOption) bool {
	if len(opts) == 0 {
		return false
	}
	c := trace.NewSpanStartConfig(opts...)
	return c.NewRoot()
}

// mint makes a trace with one span that is not sampled. Ids must differ and need not be secret.
func mint() trace.SpanContext {
	var c trace.SpanContextConfig
	for !c.TraceID.IsValid() || !c.SpanID.IsValid() { // all zeros mean "none"
		binary.NativeEndian.PutUint64(c.TraceID[:8], rand.Uint64())
		binary.NativeEndian.PutUint64(c.TraceID[8:], rand.Uint64())
		binary.NativeEndian.PutUint64(c.SpanID[:], rand.Uint64())
	}
	return trace.NewSpanContext(c)
}
