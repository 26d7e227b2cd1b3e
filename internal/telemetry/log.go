package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"go.opentelemetry.io/otel/trace"
)

// LogConfig says where and how to log. The zero value logs to standard error, from level info up: as text on a terminal, else
// as JSON, one object a line.
type LogConfig struct {
	Level slog.Level
	// Format is "json", "text" or "auto" (the default).
	Format string
	// Output is where lines go; nil is standard error.
	Output io.Writer
}

// NewLogger returns a logger whose lines carry the trace_id of the context that they are logged with.
func NewLogger(c LogConfig) (*slog.Logger, error) {
	out := c.Output
	if out == nil {
		out = os.Stderr
	}
	opts := &slog.HandlerOptions{Level: c.Level}
	format := c.Format
	if format == "" || format == "auto" {
		format = "json"
		if f, ok := out.(*os.File); ok && isTerminal(f) {
			format = "text"
		}
	}
	switch format {
	case "json":
		return slog.New(traced{slog.NewJSONHandler(out, opts)}), nil
	case "text":
		return slog.New(traced{slog.NewTextHandler(out, opts)}), nil
	}
	return nil, fmt.Errorf("telemetry: log format %q: want json, text or auto", c.Format)
}

// traced adds the trace_id.
type traced struct{ slog.Handler }

func (h traced) Handle(ctx context.Context, r slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.HasTraceID() {
		r.AddAttrs(slog.String("trace_id", span.TraceID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

func (h traced) WithAttrs(attrs []slog.Attr) slog.Handler { return traced{h.Handler.WithAttrs(attrs)} }
func (h traced) WithGroup(name string) slog.Handler       { return traced{h.Handler.WithGroup(name)} }
