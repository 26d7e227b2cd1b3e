package telemetry

import (
	"context"
	"errors"
	"math"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/prototext"
)

// collectorServer is an OTLP collector that keeps what it is sent, as text.
type collectorServer struct {
	collector.UnimplementedTraceServiceServer
	mu   sync.Mutex
	text string
}

func (c *collectorServer) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text += prototext.Format(r)
	return &collector.ExportTraceServiceResponse{}, nil
}

func startCollector(t *testing.T) (*collectorServer, string) {
	t.Helper()
	lis, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &collectorServer{}
	s := grpc.NewServer()
	collector.RegisterTraceServiceServer(s, c)
	done := make(chan error, 1)
	go func() { done <- s.Serve(lis) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
	return c, "http://" + lis.Addr().String()
}

func TestSpansReachTheCollectorWithoutAnythingThatACallerWrote(t *testing.T) {
	t.Parallel()
	const card = "4242424242424242"
	c, endpoint := startCollector(t)
	p, stop, err := newTracers(t.Context(), TraceConfig{Endpoint: endpoint}, resource.Empty())
	if err != nil {
		t.Fatal(err)
	}
	state, err := trace.ParseTraceState("vendor=" + card)
	if err != nil {
		t.Fatal(err)
	}
	caller := remote.WithTraceState(state)
	ctx := trace.ContextWithRemoteSpanContext(t.Context(), caller)
	_, span := p.Tracer("test").Start(ctx, "GET /payments/{id}", trace.WithLinks(trace.Link{SpanContext: caller}), trace.WithAttributes(
		attribute.String("url.path", "/payments/"+card), attribute.String("user_agent.original", card),
		attribute.String("http.request.method_original", card), attribute.String("a.new.one", card),
		attribute.String("http.request.method", "GET"), attribute.String("chargeonce.outcome", "failed")))
	span.AddEvent(card)
	span.SetStatus(codes.Error, card)
	span.End()
	_, quiet := p.Tracer("test").Start(t.Context(), "not sampled")
	quiet.End()
	if err := stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, want := range []string{"GET /payments/{id}", `"http.request.method"`, `"chargeonce.outcome"`, "STATUS_CODE_ERROR"} {
		if !strings.Contains(c.text, want) {
			t.Errorf("there is no %s in\n%s", want, c.text)
		}
	}
	for _, bad := range []string{card, "not sampled"} {
		if strings.Contains(c.text, bad) {
			t.Errorf("there is %s in\n%s", bad, c.text)
		}
	}
}

func TestTraceConfigThatIsWrongIsRefusedAndItsPasswordNotShown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		config TraceConfig
		want   string
	}{
		{TraceConfig{SampleRatio: -0.1}, "telemetry: trace sample ratio: -0.1 is not within 0 and 1"},
		{TraceConfig{SampleRatio: 1.1}, "telemetry: trace sample ratio: 1.1 is not within 0 and 1"},
		{TraceConfig{SampleRatio: math.NaN()}, "telemetry: trace sample ratio: NaN is not within 0 and 1"},
		{TraceConfig{Endpoint: "collector:4317"}, "telemetry: OTLP endpoint: want http://host:port or https://host:port"},
		{TraceConfig{Endpoint: "ftp://collector"}, "telemetry: OTLP endpoint: want http://host:port or https://host:port"},
		{TraceConfig{Endpoint: "http://"}, "telemetry: OTLP endpoint: want http://host:port or https://host:port"},
		{TraceConfig{Endpoint: "http://a:hunter2@b:4317"}, "telemetry: OTLP endpoint: want http://host:port or https://host:port"},
	} {
		_, _, err := newTracers(t.Context(), c.config, resource.Empty())
		if err == nil {
			t.Errorf("%+v: no error", c.config)
			continue
		}
		if diff := cmp.Diff(c.want, err.Error()); diff != "" {
			t.Errorf("%+v: error (-want +got):\n%s", c.config, diff)
		}
	}
}

// What the spans of one purchase cost: as they were before (recorded, and for nobody), without a collector, and with one.
func BenchmarkSpansOfAPurchase(b *testing.B) {
	discard := func(ratio float64) trace.TracerProvider {
		p, stop, err := newTracers(b.Context(), TraceConfig{SampleRatio: ratio, Exporter: discards{}}, resource.Empty())
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := stop(context.WithoutCancel(b.Context())); err != nil {
				b.Error(err)
			}
		})
		return p
	}
	for _, c := range []struct {
		name string
		p    trace.TracerProvider
	}{
		{"recorded for nobody", sdktrace.NewTracerProvider()},
		{"no collector", idProvider{}},
		{"none sampled", discard(0)},
		{"all sampled", discard(1)},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			tracer := c.p.Tracer("bench")
			for b.Loop() {
				requestSpans(b.Context(), tracer)
			}
		})
	}
}

type discards struct{}

func (discards) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (discards) Shutdown(context.Context) error                             { return nil }
