package webhook

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// tell counts a delivery, writes its log line and completes its span. None of them holds anything of a payload but ids, and of a delivery
// that is not signed nothing at all. charge_trace_id is the trace that the PSP names: the request's whose charge the event tells of.
func (h *Handler) tell(r *http.Request, ev Event, a answer, took time.Duration) {
	ctx := r.Context()
	h.metrics.count(ctx, a.outcome)
	line := []slog.Attr{slog.String("outcome", a.outcome), slog.Int("status", a.status),
		slog.Float64("duration_ms", float64(took.Microseconds())/1000)}
	span := trace.SpanFromContext(ctx)
	if span.IsRecording() {
		span.SetAttributes(attribute.String("chargeonce.outcome", a.outcome))
	}
	for _, f := range []struct{ name, value string }{
		{"event_id", ev.ID}, {"type", ev.Type}, {"charge_id", ev.charge.ID}, {"payment_id", ev.charge.Metadata.PaymentID},
		{"charge_trace_id", namedTrace(r, ev)},
	} {
		if f.value == "" {
			continue
		}
		value := clip(f.value, MaxID)
		line = append(line, slog.String(f.name, value))
		if span.IsRecording() {
			span.SetAttributes(attribute.String("chargeonce."+f.name, value))
		}
	}
	if a.err != nil {
		line = append(line, slog.Any("error", a.err))
	}
	h.log.LogAttrs(ctx, levelOf(a), "webhook", line...)
}

func levelOf(a answer) slog.Level {
	switch {
	case a.status == http.StatusInternalServerError, a.outcome == string(OutcomeConflict):
		return slog.LevelError
	case a.status == http.StatusServiceUnavailable:
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// namedTrace is the trace that a signed delivery names in its traceparent, or "".
func namedTrace(r *http.Request, ev Event) string {
	named := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), propagation.HeaderCarrier(r.Header)))
	if ev.ID == "" || !named.IsValid() {
		return ""
	}
	return named.TraceID().String()
}
