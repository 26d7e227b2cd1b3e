// Package telemetry sets up logs, traces and metrics for a process, and holds the type of a credential that does not print.
// The other packages know none of it but [Secret]: they log to the *slog.Logger that they are given, and use the global
// OpenTelemetry API.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// Config says what a process calls itself, how it logs and where its spans go.
type Config struct {
	// Service is the service.name of its traces and metrics, such as "chargeonce". OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES
	// go before it.
	Service string
	// Log says where and how it logs.
	Log LogConfig
	// Traces says where its spans go.
	Traces TraceConfig
}

// Telemetry is what [Setup] made.
type Telemetry struct {
	Log *slog.Logger
	// Metrics serves what Prometheus scrapes. It belongs on the admin port.
	Metrics http.Handler

	shutdown []func(context.Context) error
}

// Setup makes the process's logger and sets the global OpenTelemetry providers and the W3C propagator. Trace ids are made, shown by logs
// and responses and passed on to whoever is called, whether or not spans are exported (see [TraceConfig]).
func Setup(ctx context.Context, c Config) (*Telemetry, error) {
	log, err := NewLogger(c.Log)
	if err != nil {
		return nil, err
	}
	res, err := resource.New(ctx, resource.WithAttributes(
		semconv.ServiceName(c.Service), semconv.ServiceVersion(Version())), resource.WithHost(), resource.WithProcessPID(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("telemetry: resource: %w", err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	reader, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo())
	if err != nil {
		return nil, fmt.Errorf("telemetry: Prometheus exporter: %w", err)
	}
	meters := metric.NewMeterProvider(metric.WithReader(reader), metric.WithResource(res))
	tracers, stopTracers, err := newTracers(ctx, c.Traces, res)
	if err != nil {
		return nil, err
	}
	otel.SetMeterProvider(meters)
	otel.SetTracerProvider(tracers)
	otel.SetTextMapPropagator(propagation.TraceContext{})
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		log.Warn("OpenTelemetry reports a fault", "error", err)
	}))
	return &Telemetry{
		Log: log,
		Metrics: promhttp.HandlerFor(registry, promhttp.HandlerOpts{
			EnableOpenMetrics: true, // which carries exemplars: from a slow request's bucket to its trace
			ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		}),
		shutdown: []func(context.Context) error{stopTracers, meters.Shutdown},
	}, nil
}

// Shutdown sends what is still held back. Call it last, with a bounded context.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	var errs []error
	for _, f := range t.shutdown {
		errs = append(errs, f(ctx))
	}
	return errors.Join(errs...)
}

// Version names this build: the module's version or, between releases, the commit that it was built from.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	version := info.Main.Version
	if version != "" && version != "(devel)" {
		return version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return "devel"
}

// isTerminal reports whether f is a character device, which a file, a pipe and a container's log are not.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
