package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"chargeonce/internal/telemetry"
)

var suiteTelemetry *telemetry.Telemetry

// exported is every span that left the process, as a collector would have got it.
var exported spanExporter

type spanExporter struct {
	mu    sync.Mutex
	spans []sdktrace.ReadOnlySpan
}

func (e *spanExporter) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.spans = append(e.spans, spans...)
	return nil
}

func (e *spanExporter) Shutdown(context.Context) error { return nil }

// of returns the spans of one trace, and of those that have a link to it, in the order of their ends.
func (e *spanExporter) of(id trace.TraceID) []sdktrace.ReadOnlySpan {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []sdktrace.ReadOnlySpan
	for _, s := range e.spans {
		found := s.SpanContext().TraceID() == id
		for _, l := range s.Links() {
			found = found || l.SpanContext.TraceID() == id
		}
		if found {
			out = append(out, s)
		}
	}
	return out
}

// tell is all that a span says, but for its ids.
func tell(s sdktrace.ReadOnlySpan) string {
	text := fmt.Sprint("span ", s.Name(), " ", s.Status(), " ", s.Events(), " ", s.SpanContext().TraceState())
	for _, kv := range s.Attributes() {
		text += fmt.Sprint(" ", kv.Key, "=", kv.Value.String())
	}
	for _, l := range s.Links() {
		text += fmt.Sprint(" link ", l.SpanContext.TraceState(), l.Attributes)
	}
	return text
}

// everythingTold are all lines of log, spans and metrics of this process. It ends the telemetry.
func everythingTold() (string, error) {
	w := httptest.NewRecorder()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "/metrics", nil)
	if err != nil {
		return "", err
	}
	metrics.ServeHTTP(w, r)
	if err := suiteTelemetry.Shutdown(context.Background()); err != nil {
		return "", err
	}
	var b strings.Builder
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "chargeonce_") { // what is not ours has long numbers
			name, _, _ := strings.Cut(line, "} ") // and so have our values
			b.WriteString(name + "\n")
		}
	}
	exported.mu.Lock()
	defer exported.mu.Unlock()
	for _, s := range exported.spans {
		b.WriteString(tell(s) + "\n")
	}
	suite.mu.Lock()
	defer suite.mu.Unlock()
	return suite.log.String() + b.String(), nil
}
