package psp

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"time"

	"github.com/sony/gobreaker/v2"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// observer holds the instruments. Every label is one of few values: never a key, an id or a text of the PSP's.
type observer struct {
	client  attribute.KeyValue
	server  []attribute.KeyValue // where it is
	tracer  trace.Tracer
	unwatch metric.Registration

	duration metric.Float64Histogram
	retries  metric.Int64Counter
	giveUps  metric.Int64Counter
	refusals metric.Int64Counter
	slows    metric.Int64Counter
}

func newObserver(m metric.Meter, tracer trace.Tracer, c *Client) (*observer, error) {
	o := &observer{client: attribute.String("psp.client", c.cfg.Name), server: serverAttrs(c.base), tracer: tracer}
	var errs [10]error
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

	budget, err := m.Float64ObservableGauge("chargeonce.psp.retry_budget", metric.WithUnit("{token}"),
		metric.WithDescription("What is left of the retry budget; a retry costs one."))
	errs[5] = err
	state, err := m.Int64ObservableGauge("chargeonce.psp.breaker.state",
		metric.WithDescription("1 for the state that the breaker is in, 0 for the other two."))
	errs[6] = err
	slots, err := m.Int64ObservableGauge("chargeonce.psp.slots.used", metric.WithUnit("{slot}"),
		metric.WithDescription("Calls under way: the slots of the bulkhead that are taken."))
	errs[7] = err
	limit, err := m.Int64ObservableGauge("chargeonce.psp.slots.limit", metric.WithUnit("{slot}"),
		metric.WithDescription("How many slots the bulkhead has."))
	errs[8] = err
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	o.unwatch, err = m.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		to.ObserveFloat64(budget, float64(c.budget.left())/tokenTenths, metric.WithAttributes(o.client))
		to.ObserveInt64(slots, int64(c.bulkhead.inUse()), metric.WithAttributes(o.client))
		to.ObserveInt64(limit, int64(cap(c.bulkhead.slots)), metric.WithAttributes(o.client))
		now := c.breaker.current()
		for _, s := range []gobreaker.State{gobreaker.StateClosed, gobreaker.StateHalfOpen, gobreaker.StateOpen} {
			in := int64(0)
			if s == now {
				in = 1
			}
			to.ObserveInt64(state, in, metric.WithAttributes(o.client, attribute.String("state", s.String())))
		}
		return nil
	}, budget, state, slots, limit)
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

var clientSpan = trace.WithSpanKind(trace.SpanKindClient)

// startAttempt opens the span of the nth attempt. The PSP's traceparent is this span. Neither the URL nor the key is on it.
func (o *observer) startAttempt(ctx context.Context, q call, n int, state gobreaker.State) (context.Context, trace.Span) {
	ctx, span := o.tracer.Start(ctx, "psp "+string(q.op), clientSpan)
	if span.IsRecording() {
		span.SetAttributes(o.client, operationAttr(q.op), attribute.Int("psp.attempt", n),
			attribute.String("psp.breaker.state", state.String()), semconv.HTTPRequestMethodKey.String(q.method))
		span.SetAttributes(o.server...)
		if n > 1 {
			span.SetAttributes(semconv.HTTPRequestResendCount(n - 1))
		}
	}
	return ctx, span
}

// answered puts the status of an answer on the attempt's span.
func answered(ctx context.Context, a answer) {
	if span := trace.SpanFromContext(ctx); a.status != 0 && span.IsRecording() {
		span.SetAttributes(semconv.HTTPResponseStatusCode(a.status))
	}
}

// endAttempt puts the outcome on the span. An error's text is left out: it may hold what the PSP wrote.
func endAttempt(span trace.Span, v verdict) {
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(attribute.String("chargeonce.outcome", outcomeOf(v)))
	if v.reason != "" {
		span.SetAttributes(semconv.ErrorTypeKey.String(v.reason))
	}
	if !v.answered {
		span.SetStatus(codes.Error, v.reason)
	}
}

func serverAttrs(base *url.URL) []attribute.KeyValue {
	attrs := []attribute.KeyValue{semconv.ServerAddress(base.Hostname())}
	port, err := strconv.Atoi(base.Port())
	switch {
	case err == nil:
	case base.Scheme == "https":
		port = 443
	default:
		port = 80
	}
	return append(attrs, semconv.ServerPort(port))
}

func operationAttr(op operation) attribute.KeyValue {
	return attribute.String("psp.operation", string(op))
}

func outcomeAttr(v verdict) attribute.KeyValue { return attribute.String("psp.outcome", outcomeOf(v)) }

// outcomeOf is the kind; or "answered" for a page of the statement, which has none.
func outcomeOf(v verdict) string {
	if v.answered && v.page.Charges != nil {
		return "answered"
	}
	return v.kind.String()
}
