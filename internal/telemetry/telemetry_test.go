package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
)

func TestASecretDoesNotPrint(t *testing.T) {
	t.Parallel()
	const s = Secret("hunter2")
	text, err := json.Marshal(map[string]any{"s": s})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	for _, format := range []string{"json", "text"} {
		l, err := NewLogger(LogConfig{Format: format, Output: &log})
		if err != nil {
			t.Fatal(err)
		}
		l.Info("m", "secret", s, "in a struct", struct{ S Secret }{s})
	}
	for _, got := range []string{fmt.Sprint(s), fmt.Sprintf("%v %+v %#v %q %s", s, s, s, s, s), fmt.Sprintf("%+v", struct{ S Secret }{s}), string(text), log.String()} {
		if strings.Contains(got, "hunter2") || !strings.Contains(got, redacted) {
			t.Errorf("printed: %s", got)
		}
	}
	if s.Reveal() != "hunter2" || Secret("").String() != "" {
		t.Errorf("Reveal %q, empty %q", s.Reveal(), Secret(""))
	}
}

func TestALogFormatThatThereIsNotIsAnError(t *testing.T) {
	t.Parallel()
	if _, err := NewLogger(LogConfig{Format: "xml"}); err == nil {
		t.Error("no error")
	}
}

// Setup sets the process's providers, so one test looks at all that it does.
func TestSetup(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	tel, err := Setup(t.Context(), Config{Service: "test", Log: LogConfig{Level: slog.LevelInfo, Output: &log}})
	if err != nil {
		t.Fatal(err)
	}

	remote := otel.GetTextMapPropagator().Extract(t.Context(), propagation.MapCarrier{
		"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"})
	ctx, span := otel.Tracer("test").Start(remote, "work")
	tel.Log.With("a", 1).WithGroup("g").InfoContext(ctx, "inside")
	tel.Log.DebugContext(ctx, "not shown")
	span.End()
	if got := log.String(); !strings.Contains(got, `"trace_id":"4bf92f3577b34da6a3ce929d0e0e4736"`) || strings.Contains(got, "not shown") {
		t.Errorf("log: %s", got)
	}

	counter, err := otel.Meter("test").Int64Counter("chargeonce.test.events")
	if err != nil {
		t.Fatal(err)
	}
	counter.Add(ctx, 3)
	w := httptest.NewRecorder()
	tel.Metrics.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	for _, want := range []string{"chargeonce_test_events_total 3", "go_goroutines", `target_info{`, `service_name="test"`} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("/metrics has no %s:\n%s", want, w.Body)
		}
	}
	if err := tel.Shutdown(context.WithoutCancel(ctx)); err != nil {
		t.Error(err)
	}
}
