package payment

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"chargeonce/internal/idempotency"
	"chargeonce/internal/psp"
)

// scope names this package's instruments and spans.
const scope = "chargeonce/payment"

// The outcomes of a claim and of a finish that are no status of their own. They are the labels of metrics and stand on spans.
const (
	claimNew        = "new"
	claimTakenOver  = "taken_over"
	claimReplay     = "replay"
	claimInProgress = "in_progress"
	claimReused     = "reused"
	claimOrderOpen  = "order_open"

	finishCharged  = "charged"
	finishReleased = "released"

	outcomeParked = "parked"
	outcomeFenced = "fenced"
	outcomeFailed = "failed" // the database did not say
)

const (
	outcomeKey   = attribute.Key("chargeonce.outcome")
	leaseKey     = attribute.Key("chargeonce.lease")
	paymentIDKey = attribute.Key("chargeonce.payment_id")
)

// observer counts claims and finishes, and opens spans for them. Nothing of it ever holds a key.
type observer struct {
	tracer   trace.Tracer
	claims   metric.Int64Counter
	finishes metric.Int64Counter
}

func newObserver(m metric.Meter, t trace.Tracer) *observer {
	claims, err1 := m.Int64Counter("chargeonce.claims", metric.WithUnit("{claim}"),
		metric.WithDescription("Claims of idempotency keys, by what they came to; and, as fenced, leases that were found to be taken over."))
	finishes, err2 := m.Int64Counter("chargeonce.finishes", metric.WithUnit("{finish}"),
		metric.WithDescription("Leases that were granted, by how they ended."))
	if err := errors.Join(err1, err2); err != nil {
		otel.Handle(fmt.Errorf("payment: %w", err)) // the instruments that came with it measure nothing, and do no harm
	}
	return &observer{tracer: t, claims: claims, finishes: finishes}
}

func (o *observer) start(ctx context.Context, name string) (context.Context, trace.Span) {
	return o.tracer.Start(ctx, name)
}

// claimed tells what a claim came to.
func (o *observer) claimed(ctx context.Context, span trace.Span, got idempotency.Acquired, err error) {
	outcome := claimOutcome(got, err)
	o.claims.Add(ctx, 1, withOutcome(outcome))
	tell(span, outcome, got.Lease)
	if got.Record != nil && span.IsRecording() {
		span.SetAttributes(leaseKey.Int64(max(got.Record.Lease, got.Lease.Token)), paymentIDKey.String(got.Record.PaymentID))
	}
}

// finished tells how a lease ended.
func (o *observer) finished(ctx context.Context, span trace.Span, l idempotency.Lease, outcome string) {
	o.finishes.Add(ctx, 1, withOutcome(outcome))
	if outcome == outcomeFenced {
		o.claims.Add(ctx, 1, withOutcome(outcome))
	}
	tell(span, outcome, l)
}

// tell puts an outcome on a span, and the lease if there is one.
func tell(span trace.Span, outcome string, l idempotency.Lease) {
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(outcomeKey.String(outcome))
	if l.Token != 0 {
		span.SetAttributes(leaseKey.Int64(l.Token), paymentIDKey.String(l.PaymentID))
	}
	if outcome == outcomeFailed || outcome == outcomeParked && l.Token != 0 { // parked by this very lease: somebody has to look
		span.SetStatus(codes.Error, outcome)
	}
}

func withOutcome(outcome string) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String("outcome", outcome)))
}

func claimOutcome(got idempotency.Acquired, err error) string {
	var busy *idempotency.InProgressError
	var order *idempotency.OrderOpenError
	switch {
	case err == nil && got.Done():
		return claimReplay
	case err == nil && got.Lease.TakenOver():
		return claimTakenOver
	case err == nil:
		return claimNew
	case errors.Is(err, idempotency.ErrReused):
		return claimReused
	case errors.Is(err, idempotency.ErrParked):
		return outcomeParked
	case errors.As(err, &busy):
		return claimInProgress
	case errors.As(err, &order):
		return claimOrderOpen
	}
	return outcomeFailed
}

// finishOutcome names how a finish ended that was to record res.
func finishOutcome(res psp.Result, a Answer, err error) string {
	var busy *idempotency.InProgressError
	switch {
	case errors.Is(err, idempotency.ErrParked):
		return outcomeParked
	case errors.As(err, &busy), err == nil && a.Replayed:
		return outcomeFenced
	case err != nil:
		return outcomeFailed
	}
	switch res.Kind {
	case psp.Pending:
		return string(Pending)
	case psp.Failed, psp.Declined:
		return string(CardDeclined)
	case psp.Rejected:
		return string(PSPRejected)
	case psp.Cancelled:
		return string(Abandoned)
	case psp.Succeeded, psp.Voided, psp.Refunded, psp.Unknown, psp.StillWorking, psp.NeverSeen, psp.NotSent, psp.Mismatch:
	}
	return finishCharged // what is not final does not come here
}

func releaseOutcome(err error) string {
	switch {
	case err == nil:
		return finishReleased
	case errors.Is(err, idempotency.ErrLeaseLost):
		return outcomeFenced
	}
	return outcomeFailed
}

// purchaseOutcome names what one request came to.
func purchaseOutcome(a Answer, err error) string {
	var (
		undecided *UndecidedError
		busy      *idempotency.InProgressError
		orderBusy *OrderInProgressError
		orderPaid *OrderPaidError
	)
	switch {
	case err == nil && a.Replayed:
		return "replayed"
	case err == nil:
		return "answered"
	case errors.Is(err, idempotency.ErrReused):
		return claimReused
	case errors.Is(err, idempotency.ErrParked):
		return outcomeParked
	case errors.As(err, &busy):
		return claimInProgress
	case errors.As(err, &orderBusy):
		return "order_in_progress"
	case errors.As(err, &orderPaid):
		return "order_paid"
	case errors.As(err, &undecided):
		return string(undecided.Why)
	}
	return outcomeFailed
}
