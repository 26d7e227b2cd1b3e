package main

import (
	"context"
	"log/slog"
	"time"

	"chargeonce/internal/telemetry"
)

// telemetryFlags say what the process tells of itself, and to whom.
type telemetryFlags struct {
	LogLevel  slog.Level `default:"info" help:"debug, info, warn or error."`
	LogFormat string     `default:"auto" enum:"auto,json,text" help:"auto is text on a terminal, else JSON."`

	OTLPEndpoint string `name:"otlp-endpoint" env:"CHARGEONCE_OTLP_ENDPOINT,OTEL_EXPORTER_OTLP_TRACES_ENDPOINT,OTEL_EXPORTER_OTLP_ENDPOINT" placeholder:"URL" help:"Send spans to this collector, by OTLP over gRPC: http://host:4317 or https://host:4317. Without it none are recorded; trace ids are made and passed on all the same."`

	TraceSampleRatio float64 `default:"0.1" help:"Share of the traces that is sent, 0 to 1. A caller that has decided already is followed, and what ends in an error is sent whatever was decided."`
}

func (f telemetryFlags) setup(ctx context.Context) (*telemetry.Telemetry, error) {
	return telemetry.Setup(ctx, telemetry.Config{
		Service: "chargeonce",
		Log:     telemetry.LogConfig{Level: f.LogLevel, Format: f.LogFormat},
		Traces:  telemetry.TraceConfig{Endpoint: f.OTLPEndpoint, SampleRatio: f.TraceSampleRatio},
	})
}

// telemetryGrace bounds how long the process stays to send its last telemetry.
const telemetryGrace = 5 * time.Second

// flush sends the last telemetry, though ctx has ended. A collector that is away is no reason for a command to fail.
func flush(ctx context.Context, tel *telemetry.Telemetry) {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), telemetryGrace)
	defer cancel()
	if err := tel.Shutdown(last); err != nil {
		tel.Log.WarnContext(ctx, "the last telemetry was not sent", "error", err)
	}
}
