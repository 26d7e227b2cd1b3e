package client_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"chargeonce/api/payments/v1/client"
)

// TestMain sets the propagator that a process sets at its start. It is global, so no single test may.
func TestMain(m *testing.M) {
	otel.SetTextMapPropagator(propagation.TraceContext{})
	m.Run()
}

// sees is a gRPC connection that notes the metadata of its calls and fails them.
type sees struct{ traceparent string }

func (s *sees) Invoke(ctx context.Context, _ string, _, _ any, _ ...grpc.CallOption) error {
	md, _ := metadata.FromOutgoingContext(ctx)
	s.traceparent = strings.Join(md.Get("traceparent"), ",")
	return context.Canceled
}

func (s *sees) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, context.Canceled
}

func TestTheCallersTraceIsPassedOn(t *testing.T) {
	t.Parallel()
	overGRPC, overREST := &sees{}, &sees{}
	rest := roundTripper(func(r *http.Request) (*http.Response, error) {
		overREST.traceparent = strings.Join(r.Header.Values("Traceparent"), ",")
		return nil, context.Canceled
	})
	for _, cfg := range []client.Config{
		{Conn: overGRPC, APIKey: apiKey, MaxTries: 1},
		{BaseURL: "http://service.test", HTTP: rest, APIKey: apiKey, MaxTries: 1},
	} {
		c, err := client.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		for traced, want := range map[bool]string{true: "00-01000000000000000000000000000000-0200000000000000-01", false: ""} {
			ctx := t.Context()
			if traced {
				ctx = trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
					TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled}))
			}
			if _, err := c.Get(ctx, "pay_1"); err == nil {
				t.Fatal("no error")
			}
			for face, got := range map[string]string{"gRPC": overGRPC.traceparent, "REST": overREST.traceparent} {
				if (cfg.Conn != nil) == (face == "gRPC") && got != want {
					t.Errorf("%s: sent %q, want %q", face, got, want)
				}
			}
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
