package server

import (
	"context"
	"net/http"
	"strings"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/metric/noop"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	paymentsv1 "chargeonce/api/payments/v1"
)

// The spans of both faces are OpenTelemetry's own. What those handlers put on a span that a caller could have written (path, query,
// host, user agent) does not leave the process: see package telemetry. Their metrics are off, since ours say the same with fewer series.

// traced has each request over REST go on with its caller's trace, or begin one. An event of the PSP's begins one of its own, with
// a link to the one that it names: of the request whose charge the event tells of. Probes have none.
func traced(next http.Handler) http.Handler {
	return otelhttp.NewHandler(next, "REST",
		otelhttp.WithMeterProvider(noop.NewMeterProvider()),
		otelhttp.WithFilter(func(r *http.Request) bool { return r.URL.Path != "/healthz" && r.URL.Path != "/readyz" }),
		otelhttp.WithPublicEndpointFn(func(r *http.Request) bool { return r.URL.Path == webhookPath }),
	)
}

// onRoute names the request's route on its span: the pattern, where the path could be anything.
func onRoute(ctx context.Context, pattern string) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		_, path, _ := strings.Cut(pattern, " ")
		span.SetAttributes(semconv.HTTPRoute(path))
	}
}

// tracedCalls does for calls over gRPC what traced does for REST: for the methods that there are, since a span is named by its method,
// and a caller can name any.
func tracedCalls() grpc.ServerOption {
	methods := map[string]bool{}
	for _, m := range paymentsv1.PaymentService_ServiceDesc.Methods {
		methods["/"+paymentsv1.PaymentService_ServiceDesc.ServiceName+"/"+m.MethodName] = true
	}
	return grpc.StatsHandler(otelgrpc.NewServerHandler(
		otelgrpc.WithMeterProvider(noop.NewMeterProvider()),
		otelgrpc.WithFilter(func(info *stats.RPCTagInfo) bool { return methods[info.FullMethodName] })))
}
