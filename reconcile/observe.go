package reconcile

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"chargeonce/internal/idempotency"
	"chargeonce/internal/payment"
)

// scope names this package's instruments and spans.
const scope = "chargeonce/reconcile"

// endPass completes the span of a pass.
func endPass(span trace.Span, r Report, err error) {
	defer span.End()
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(attribute.String("chargeonce.outcome", result(r, err != nil)), attribute.String("chargeonce.run_id", r.ID),
		attribute.Int("chargeonce.stuck", r.Stuck.Seen), attribute.Int("chargeonce.needs_person", r.NeedsPerson))
	if err != nil {
		span.SetStatus(codes.Error, "")
	}
}

// startKey begins the trace of one stuck key, with links to the pass and to the request that left the key: a pass may have thousands of
// keys, and a trace of all of them could not be read.
func (p *pass) startKey(ctx context.Context, row idempotency.Record) (context.Context, trace.Span) {
	links := []trace.Link{trace.LinkFromContext(ctx)}
	left := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": row.Traceparent}))
	if left.IsValid() {
		links = append(links, trace.Link{SpanContext: left})
	}
	ctx, span := p.tracer.Start(ctx, "reconcile key", trace.WithNewRoot(), trace.WithLinks(links...))
	if span.IsRecording() {
		span.SetAttributes(attribute.String("chargeonce.payment_id", row.PaymentID), attribute.Int64("chargeonce.lease", row.Lease))
	}
	return ctx, span
}

// endKey completes the span of a stuck key.
func endKey(span trace.Span, s payment.Settlement, err error) {
	defer span.End()
	if !span.IsRecording() {
		return
	}
	if err != nil {
		span.SetAttributes(attribute.String("chargeonce.outcome", "failed"))
		span.SetStatus(codes.Error, "")
		return
	}
	span.SetAttributes(attribute.String("chargeonce.outcome", string(s)))
}
