package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	paymentsv1 "chargeonce/api/payments/v1"
)

// scope names this package's instruments.
const scope = "chargeonce/server"

// promised is the objective's time: a checkout is answered within it. A histogram's bucket ends there.
const promised = time.Second

// outcome says how a request counts for the objective.
type outcome string

const (
	// outcomeAnswered: the caller has a final answer: what it asked for, or a refusal that is stored for its key.
	outcomeAnswered outcome = "answered"
	// outcomeRefused: the caller's own fault or doing. It counts neither for nor against.
	outcomeRefused outcome = "refused"
	// outcomeFailed: 5xx or 429. It counts against, whosever fault it was.
	outcomeFailed outcome = "failed"
	// outcomeLeft: the caller hung up before the promised time was over, and nobody was there to be answered. It counts for neither.
	outcomeLeft outcome = "left"
)

func outcomeOf(ctx context.Context, p *problem, took time.Duration) outcome {
	if p == nil || p.stored != nil {
		return outcomeAnswered
	}
	status := p.row().httpStatus
	switch {
	case status < http.StatusInternalServerError && status != http.StatusTooManyRequests:
		return outcomeRefused
	case errors.Is(ctx.Err(), context.Canceled) && took < promised:
		return outcomeLeft
	}
	return outcomeFailed
}

// metrics are the server's instruments. Every label has a handful of values, whatever a caller sends.
type metrics struct {
	duration metric.Float64Histogram
	unwatch  metric.Registration
}

func newMetrics(m metric.Meter, l *load, ro *readOnly) (*metrics, error) {
	duration, err1 := m.Float64Histogram("chargeonce.request.duration", metric.WithUnit("s"),
		metric.WithDescription("How long requests took, by method, face, code, reason and outcome. The objective: of the CreatePayment "+
			"requests that were answered or failed, the share that was answered within 1 s."),
		metric.WithExplicitBucketBoundaries(.005, .01, .025, .05, .1, .25, .5, promised.Seconds(), 2.5, 5, 10, 30))
	inFlight, err2 := m.Int64ObservableUpDownCounter("chargeonce.requests.in_flight", metric.WithUnit("{request}"),
		metric.WithDescription("Requests that are being worked on, those included whose client has left."))
	limit, err3 := m.Int64ObservableUpDownCounter("chargeonce.requests.in_flight.limit", metric.WithUnit("{request}"),
		metric.WithDescription("How many requests may be in flight."))
	isReadOnly, err4 := m.Int64ObservableGauge("chargeonce.read_only",
		metric.WithDescription("1 while this server is in read-only mode and takes no new purchases, else 0."))
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, fmt.Errorf("server: metrics: %w", err)
	}
	unwatch, err := m.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		to.ObserveInt64(inFlight, l.inFlight.Load())
		to.ObserveInt64(limit, l.most)
		value := int64(0)
		if ro.is.Load() {
			value = 1
		}
		to.ObserveInt64(isReadOnly, value)
		return nil
	}, inFlight, limit, isReadOnly)
	if err != nil {
		return nil, fmt.Errorf("server: metrics: %w", err)
	}
	return &metrics{duration: duration, unwatch: unwatch}, nil
}

// close takes down what is read when metrics are.
func (m *metrics) close() error { return m.unwatch.Unregister() }

// observe turns the error into a status and tells what came of the call.
func (s *Server) observe(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	start := time.Now()
	if callOf(ctx).face == faceGRPC {
		if span := trace.SpanContextFromContext(ctx); span.HasTraceID() {
			setHeader(ctx, s.log, mdTraceID, span.TraceID().String())
		}
	}
	resp, err := next(ctx, req)
	var p *problem
	if err != nil {
		p = classify(ctx, err)
		err = p
		if callOf(ctx).face == faceGRPC {
			err = p.GRPCStatus().Err()
		}
	}
	if !internalMethod(info.FullMethod) {
		s.tell(ctx, info.FullMethod, p, time.Since(start))
	}
	return resp, err
}

// tell writes the request's log line, measures it, and completes its span. None of them shows the idempotency key, the API key or
// anything of the request's body.
func (s *Server) tell(ctx context.Context, method string, p *problem, took time.Duration) {
	method = strings.TrimPrefix(method, "/"+paymentsv1.PaymentService_ServiceDesc.ServiceName+"/")
	c, end := callOf(ctx), outcomeOf(ctx, p, took)
	c.told = true
	code, reason := codeOf(p)
	labels := attribute.NewSet(attribute.String("method", method), attribute.String("face", string(c.face)),
		attribute.String("code", code), attribute.String("reason", reason), attribute.String("outcome", string(end)))
	s.metrics.duration.Record(ctx, took.Seconds(), metric.WithAttributeSet(labels))
	s.log.LogAttrs(ctx, levelOf(p), "request", lineOf(c, p, reason,
		slog.String("method", method), slog.String("face", string(c.face)), slog.String("code", code),
		slog.String("outcome", string(end)), slog.Float64("duration_ms", float64(took.Microseconds())/1000))...)
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(attribute.String("chargeonce.outcome", string(end)), attribute.String("chargeonce.method", method))
	if reason != "" {
		span.SetAttributes(attribute.String("chargeonce.reason", reason))
	}
	if id := c.paymentID.Load(); id != nil {
		span.SetAttributes(attribute.String("chargeonce.payment_id", *id))
	}
}

// codeOf names the gRPC code and the contract's reason. What REST alone can answer has no code, and what is no error no reason.
func codeOf(p *problem) (code, reason string) {
	if p == nil {
		return codes.OK.String(), ""
	}
	if c := p.grpcCode(); c != codes.OK {
		code = c.String()
	}
	reason = p.document().Reason
	if _, known := paymentsv1.Reason_value[reason]; !known {
		reason = "OTHER" // stored by a newer build
	}
	return code, reason
}

func levelOf(p *problem) slog.Level {
	if p != nil && p.reason == paymentsv1.Reason_INTERNAL {
		return slog.LevelError
	}
	return slog.LevelInfo
}

// lineOf adds to attrs what is known of the call.
func lineOf(c *call, p *problem, reason string, attrs ...slog.Attr) []slog.Attr {
	if c.userID != 0 {
		attrs = append(attrs, slog.Int64("user_id", c.userID))
	}
	if id := c.paymentID.Load(); id != nil {
		attrs = append(attrs, slog.String("payment_id", *id))
	}
	if c.keyHint != "" {
		attrs = append(attrs, slog.String("key", c.keyHint), slog.Bool("replayed", c.replayed))
	}
	if p == nil {
		return attrs
	}
	attrs = append(attrs, slog.String("reason", reason))
	if p.cause != nil {
		attrs = append(attrs, slog.String("error", p.cause.Error()))
	}
	var panicked *panicError
	if errors.As(p, &panicked) {
		attrs = append(attrs, slog.String("panic", fmt.Sprint(panicked.value)), slog.String("stack", string(panicked.stack)))
	}
	return attrs
}
