package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// TraceConfig says where spans go. The zero value records none; trace ids are made and passed on all the same.
type TraceConfig struct {
	// Endpoint is the URL of a collector that takes OTLP over gRPC, such as http://localhost:4317 (plain) or https://… (TLS). The
	// OTEL_EXPORTER_OTLP_* variables for headers, certificates and compression hold too.
	Endpoint string
	// SampleRatio is the share of traces that is exported whole, 0 to 1. A caller that has decided already is followed. What ends in
	// an error is exported whatever was decided.
	SampleRatio float64
	// Exporter, if set, gets the spans in place of Endpoint. For tests.
	Exporter sdktrace.SpanExporter
}

func (c TraceConfig) validate() error {
	if !(0 <= c.SampleRatio && c.SampleRatio <= 1) { // NaN neither
		return fmt.Errorf("telemetry: trace sample ratio: %v is not within 0 and 1", c.SampleRatio)
	}
	if c.Endpoint == "" {
		return nil
	}
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return errors.New("telemetry: OTLP endpoint: want http://host:port or https://host:port") // it may hold a password: not shown
	}
	return nil
}

// newTracers makes the process's spans, and returns what sends the last of them.
func newTracers(ctx context.Context, c TraceConfig, res *resource.Resource) (trace.TracerProvider, func(context.Context) error, error) {
	if err := c.validate(); err != nil {
		return nil, nil, err
	}
	exporter := c.Exporter
	switch {
	case exporter != nil:
	case c.Endpoint == "":
		return idProvider{}, func(context.Context) error { return nil }, nil
	default:
		var err error
		if exporter, err = otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(c.Endpoint)); err != nil {
			return nil, nil, fmt.Errorf("telemetry: OTLP exporter: %w", err)
		}
	}
	p := sdktrace.NewTracerProvider(
		sdktrace.WithResource(res),
		sdktrace.WithSampler(sampler{sdktrace.ParentBased(sdktrace.TraceIDRatioBased(c.SampleRatio))}),
		sdktrace.WithSpanProcessor(newErrorKeeper(sdktrace.NewBatchSpanProcessor(allowList{exporter}))),
	)
	return p, p.Shutdown, nil
}

// sampler has every span recorded, those too that are not to be sent: whether a trace ends in an error is known at its end alone.
// See [errorKeeper].
type sampler struct{ sdktrace.Sampler }

// ShouldSample implements sdktrace.Sampler.
func (s sampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	r := s.Sampler.ShouldSample(p)
	if r.Decision == sdktrace.Drop {
		r.Decision = sdktrace.RecordOnly
	}
	return r
}
