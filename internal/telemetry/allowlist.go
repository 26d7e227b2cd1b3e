package telemetry

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// The attributes that leave the process: of these names, or of names that begin with one of these prefixes. A library that comes
// with a new one adds nothing unseen. A path, a query, a user agent and an address are not among them: a caller can write
// anything into those, a card number too.
var (
	allowedNames = []attribute.Key{
		"error.type", "http.request.method", "http.request.resend_count", "http.response.status_code", "http.route",
		"server.address", "server.port", "url.scheme",
	}
	allowedPrefixes = []string{"chargeonce.", "psp.", "rpc.", "network.protocol."}
)

func allowed(kv attribute.KeyValue) bool {
	return slices.Contains(allowedNames, kv.Key) ||
		slices.ContainsFunc(allowedPrefixes, func(p string) bool { return strings.HasPrefix(string(kv.Key), p) })
}

// allowList is an exporter that sends of each span what is known to hold nothing of a caller's: no other attribute, no event, no words
// with a status, which may repeat what a caller wrote, and no tracestate, which is a header of the caller's.
type allowList struct{ next sdktrace.SpanExporter }

// ExportSpans implements sdktrace.SpanExporter.
func (a allowList) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	out := make([]sdktrace.ReadOnlySpan, len(spans))
	for i, s := range spans {
		out[i] = scrubbed{s}
	}
	if err := a.next.ExportSpans(ctx, out); err != nil {
		return fmt.Errorf("telemetry: export %d spans: %w", len(out), err)
	}
	return nil
}

// Shutdown implements sdktrace.SpanExporter.
func (a allowList) Shutdown(ctx context.Context) error { return a.next.Shutdown(ctx) }

type scrubbed struct{ sdktrace.ReadOnlySpan }

// Attributes implements sdktrace.ReadOnlySpan.
func (s scrubbed) Attributes() []attribute.KeyValue {
	return slices.DeleteFunc(slices.Clone(s.ReadOnlySpan.Attributes()), func(kv attribute.KeyValue) bool { return !allowed(kv) })
}

// Status implements sdktrace.ReadOnlySpan.
func (s scrubbed) Status() sdktrace.Status {
	return sdktrace.Status{Code: s.ReadOnlySpan.Status().Code}
}

// Events implements sdktrace.ReadOnlySpan.
func (s scrubbed) Events() []sdktrace.Event { return nil }

// SpanContext implements sdktrace.ReadOnlySpan.
func (s scrubbed) SpanContext() trace.SpanContext { return stateless(s.ReadOnlySpan.SpanContext()) }

// Parent implements sdktrace.ReadOnlySpan.
func (s scrubbed) Parent() trace.SpanContext { return stateless(s.ReadOnlySpan.Parent()) }

// Links implements sdktrace.ReadOnlySpan.
func (s scrubbed) Links() []sdktrace.Link {
	var out []sdktrace.Link
	for _, l := range s.ReadOnlySpan.Links() {
		out = append(out, sdktrace.Link{SpanContext: stateless(l.SpanContext)})
	}
	return out
}

func stateless(c trace.SpanContext) trace.SpanContext { return c.WithTraceState(trace.TraceState{}) }
