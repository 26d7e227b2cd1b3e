package psp

import (
	"context"
	"errors"
	"time"

	"github.com/sony/gobreaker/v2"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// observer holds the instruments. Every label is one of few values: never a key, an id or a text of the PSP's.
type observer struct {
	client  attribute.KeyValue
	tracer  trace.Tracer
	unwatch metric.Registration

	duration metric.Float64Histogram
	retries  metric.Int64Counter
	giveUps  metric.Int64Counter
	refusals metric.Int64Counter
	slows    metric.Int64Counter
}

func newObserver(m metric.Meter, tracer trace.Tracer, c *Client) (*observer, error) {
	o := &observer{client: attribute.String("psp.client", c.cfg.Name), tracer: tracer}
	var errs [9]error
	o.duration, errs[0] = m.Float64Histogram("chargeonce.psp.attempt.duration", metric.WithUnit("s"),
		metric.WithDescription("Time of the attempts that were made at the PSP, by operation and outcome."),
		metric.WithExplicitBucketBoundaries(.005, .01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 1.5, 2, 3, 5, 10))
	o.retries, errs[1] = m.Int64Counter("chargeonce.psp.retries", metric.WithUnit("{retry}"),
		metric.WithDescription("Attempts made again, by the reason."))
	o.giveUps, errs[2] = m.Int64Counter("chargeonce.psp.give_ups", metric.WithUnit("{call}"),
		metric.WithDescription("Calls not tried again although the answer would allow it, by what was spent: attempts, deadline, budget."))
	o.refusals, errs[3] = m.Int64Counter("chargeonce.psp.refusals", metric.WithUnit("{attempt}"),
		metric.WithDescription("Attempts that breaker or bulkhead refused, by the reason."))
	o.slows, errs[4] = m.Int64Counter("chargeonce.psp.slow_calls", metric.WithUnit("{attempt}"),
		metric.WithDescription("Attempts that passed the slow mark and were reported to the breaker as failed."))

	budget, err := m.Int64ObservableGauge("chargeonce.psp.retry_budget", metric.WithUnit("{tenth}"),
		metric.WithDescription("What is left of the retry budget, in tenths of a token; a retry costs ten."))
	errs[5] = err
	state, err := m.Int64ObservableGauge("chargeonce.psp.breaker.state", metric.WithUnit("1"),
		metric.WithDescription("1 for the state that the breaker is in, 0 for the other two."))
	errs[6] = err
	slots, err := m.Int64ObservableGauge("chargeonce.psp.slots.used", metric.WithUnit("{slot}"),
		metric.WithDescription("Calls under way: the slots of the bulkhead that are taken."))
	errs[7] = err
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	o.unwatch, err = m.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		to.ObserveInt64(budget, c.budget.left(), metric.WithAttributes(o.client))
		to.ObserveInt64(slots, int64(c.bulkhead.inUse()), metric.WithAttributes(o.client))
		now := c.breaker.current()
		for _, s := range []gobreaker.State{gobreaker.StateClosed, gobreaker.StateHalfOpen, gobreaker.StateOpen} {
			in := int64(0)
			if s == now {
				in = 1
			}
			to.ObserveInt64(state, in, metric.WithAttributes(o.client, attribute.String("state", s.String())))
		}
		return nil
	}, budget, state, slots)
	return o, err
}

func (o *observer) close() error { return o.unwatch.Unregister() }

func (o *observer) attempted(ctx context.Context, op operation, v verdict, took time.Duration) {
	attrs := []attribute.KeyValue{o.client, operationAttr(op), outcomeAttr(v)}
	if v.reason != "" {
		attrs = append(attrs, attribute.String("error.type", v.reason))
	}
	o.duration.Record(ctx, took.Seconds(), metric.WithAttributes(attrs...))
}

func (o *observer) retried(ctx context.Context, op operation, reason string) {
	o.retries.Add(ctx, 1, metric.WithAttributes(o.client, operationAttr(op), attribute.String("error.type", reason)))
}

func (o *observer) gaveUp(ctx context.Context, op operation, spent string) {
	o.giveUps.Add(ctx, 1, metric.WithAttributes(o.client, operationAttr(op), attribute.String("spent", spent)))
}

func (o *observer) refused(ctx context.Context, op operation, reason NotSentReason) {
	o.refusals.Add(ctx, 1, metric.WithAttributes(o.client, operationAttr(op), attribute.String("reason", string(reason))))
}

func (o *observer) slow(ctx context.Context, op operation) {
	o.slows.Add(ctx, 1, metric.WithAttributes(o.client, operationAttr(op)))
}

// startAttempt opens the span of one attempt. The PSP's traceparent is this span.
func (o *observer) startAttempt(ctx context.Context, op operation, n int, state gobreaker.State) (context.Context, trace.Span) {
	return o.tracer.Start(ctx, "psp "+string(op), trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		o.client, operationAttr(op), attribute.Int("psp.attempt", n), attribute.String("psp.breaker.state", state.String())))
}

// endAttempt puts the outcome on the span. An error's text is left out: it may hold what the PSP wrote.
func endAttempt(span trace.Span, v verdict) {
	span.SetAttributes(outcomeAttr(v))
	if v.reason != "" {
		span.SetAttributes(attribute.String("error.type", v.reason))
	}
	if !v.answered {
		span.SetStatus(codes.Error, v.reason)
	}
}

func operationAttr(op operation) attribute.KeyValue {
	return attribute.String("psp.operation", string(op))
}

// outcomeAttr is the kind; or "answered" for a page of the statement, which has none.
func outcomeAttr(v verdict) attribute.KeyValue {
	if v.answered && v.page.Charges != nil {
		return attribute.String("psp.outcome", "answered")
	}
	return attribute.String("psp.outcome", v.kind.String())
}
