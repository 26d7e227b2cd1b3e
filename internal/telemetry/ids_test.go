package telemetry

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

var remote = trace.NewSpanContext(trace.SpanContextConfig{
	TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled, Remote: true})

func TestWithoutACollectorWorkGetsOneTraceIDAndRecordsNothing(t *testing.T) {
	t.Parallel()
	tracer := idProvider{}.Tracer("test")
	ctx, outer := tracer.Start(t.Context(), "outer")
	if c := outer.SpanContext(); !c.IsValid() || c.IsSampled() || outer.IsRecording() {
		t.Errorf("outer: %+v, recording %t", c, outer.IsRecording())
	}
	inner, span := tracer.Start(ctx, "inner", trace.WithSpanKind(trace.SpanKindClient))
	if !span.SpanContext().Equal(outer.SpanContext()) || inner != ctx {
		t.Errorf("inner: %+v, want the outer's %+v", span.SpanContext(), outer.SpanContext())
	}
	_, other := tracer.Start(t.Context(), "outer")
	if other.SpanContext().TraceID() == outer.SpanContext().TraceID() {
		t.Error("two pieces of work have one trace id")
	}
	_, root := tracer.Start(ctx, "of its own", trace.WithNewRoot())
	if c := root.SpanContext(); !c.IsValid() || c.TraceID() == outer.SpanContext().TraceID() {
		t.Errorf("new root: %+v", c)
	}
}

func TestWithoutACollectorACallersTraceIsPassedOnAsItCame(t *testing.T) {
	t.Parallel()
	ctx := trace.ContextWithRemoteSpanContext(t.Context(), remote)
	got, span := idProvider{}.Tracer("test").Start(ctx, "work")
	if got != ctx || !span.SpanContext().Equal(remote) || span.IsRecording() {
		t.Errorf("got %+v", span.SpanContext())
	}
}

// The spans of one purchase: over REST, in memory, the flow and what it does.
func requestSpans(ctx context.Context, tracer trace.Tracer) {
	ctx, rest := tracer.Start(ctx, "POST /payments", trace.WithSpanKind(trace.SpanKindServer))
	ctx, rpc := tracer.Start(ctx, "payments.v1.PaymentService/CreatePayment", trace.WithSpanKind(trace.SpanKindServer))
	ctx, flow := tracer.Start(ctx, "purchase")
	for _, name := range []string{"claim", "psp charge", "finish"} {
		_, span := tracer.Start(ctx, name)
		if span.IsRecording() {
			span.SetAttributes(attribute.String("chargeonce.outcome", "new"), attribute.Int64("chargeonce.lease", 1))
		}
		span.End()
	}
	flow.End()
	rpc.End()
	rest.End()
}
