package telemetry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// kept is a tracer of which ratio of the traces is sampled, and the exporter that its spans reach at once.
func kept(t *testing.T, ratio float64, change func(*errorKeeper)) (trace.Tracer, *tracetest.InMemoryExporter, *errorKeeper) {
	t.Helper()
	out := tracetest.NewInMemoryExporter()
	k := newErrorKeeper(sdktrace.NewSimpleSpanProcessor(out))
	if change != nil {
		change(k)
	}
	p := sdktrace.NewTracerProvider(
		sdktrace.WithSampler(sampler{sdktrace.ParentBased(sdktrace.TraceIDRatioBased(ratio))}), sdktrace.WithSpanProcessor(k))
	return p.Tracer("test"), out, k
}

func sent(t *testing.T, out *tracetest.InMemoryExporter) string {
	t.Helper()
	var names []string
	for _, s := range out.GetSpans() {
		if !s.SpanContext.IsSampled() {
			t.Errorf("%s is sent and not marked as sampled", s.Name)
		}
		names = append(names, s.Name)
	}
	return strings.Join(names, " ")
}

func fail(s trace.Span) {
	s.SetStatus(codes.Error, "")
	s.End()
}

func (k *errorKeeper) empty(t *testing.T) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.open) != 0 || k.ages.Len() != 0 || k.held != 0 {
		t.Errorf("it still holds %d open and %d ended spans of %d groups", len(k.open), k.held, k.ages.Len())
	}
}

func TestATraceThatIsNotSampledIsSentWholeIfASpanOfItFails(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		ratio float64
		run   func(context.Context, trace.Tracer)
		want  string
	}{
		{"no error", 0, func(ctx context.Context, tr trace.Tracer) {
			ctx, root := tr.Start(ctx, "root")
			_, child := tr.Start(ctx, "child")
			child.End()
			root.End()
		}, ""},
		{"no error, sampled", 1, func(ctx context.Context, tr trace.Tracer) {
			ctx, root := tr.Start(ctx, "root")
			_, child := tr.Start(ctx, "child")
			child.End()
			root.End()
		}, "child root"},
		{"an error at the root", 0, func(ctx context.Context, tr trace.Tracer) {
			ctx, root := tr.Start(ctx, "root")
			_, child := tr.Start(ctx, "child")
			child.End()
			fail(root)
		}, "child root"},
		{"an error deep down, of an attempt that was made again", 0, func(ctx context.Context, tr trace.Tracer) {
			ctx, root := tr.Start(ctx, "root")
			for n := range 2 {
				_, child := tr.Start(ctx, fmt.Sprint("attempt", n))
				if n == 0 {
					fail(child)
				} else {
					child.End()
				}
			}
			root.End()
		}, "attempt0 attempt1 root"},
		{"what goes on after its root has ended", 0, func(ctx context.Context, tr trace.Tracer) {
			ctx, root := tr.Start(ctx, "root")
			ctx, child := tr.Start(ctx, "child")
			root.End()
			_, late := tr.Start(ctx, "late")
			fail(late)
			child.End()
		}, "root late child"},
		{"a call within the process, over the wire", 0, func(ctx context.Context, tr trace.Tracer) {
			ctx, root := tr.Start(ctx, "root")
			_, inner := tr.Start(trace.ContextWithRemoteSpanContext(ctx, root.SpanContext()), "inner")
			fail(inner)
			root.End()
		}, "inner root"},
		{"a caller's trace that it does not sample", 0, func(ctx context.Context, tr trace.Tracer) {
			_, root := tr.Start(trace.ContextWithRemoteSpanContext(ctx, remote.WithTraceFlags(0)), "root")
			fail(root)
		}, "root"},
		{"a caller's trace that it samples", 0, func(ctx context.Context, tr trace.Tracer) {
			_, root := tr.Start(trace.ContextWithRemoteSpanContext(ctx, remote), "root")
			root.End()
		}, "root"},
		{"two requests of one trace: the one that failed", 0, func(ctx context.Context, tr trace.Tracer) {
			ctx = trace.ContextWithRemoteSpanContext(ctx, remote.WithTraceFlags(0))
			_, first := tr.Start(ctx, "first")
			_, second := tr.Start(ctx, "second")
			fail(first)
			second.End()
		}, "first"},
		{"a caller that names the id of another's open span", 0, func(ctx context.Context, tr trace.Tracer) {
			_, root := tr.Start(ctx, "root")
			_, forged := tr.Start(trace.ContextWithRemoteSpanContext(ctx, remote.WithTraceFlags(0).WithSpanID(root.SpanContext().SpanID())), "forged")
			fail(forged)
			root.End()
		}, "forged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tracer, out, k := kept(t, c.ratio, nil)
			c.run(t.Context(), tracer)
			if got := sent(t, out); got != c.want {
				t.Errorf("sent %q, want %q", got, c.want)
			}
			k.empty(t)
		})
	}
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	t.Parallel()
	t.Run("one group", func(t *testing.T) {
		t.Parallel()
		tracer, out, k := kept(t, 0, func(k *errorKeeper) { k.perGroup = 2 })
		ctx, root := tracer.Start(t.Context(), "root")
		for n := range 5 {
			_, child := tracer.Start(ctx, fmt.Sprint(n))
			if n == 4 {
				fail(child) // the reason why the trace is looked at must not be what is left out
			} else {
				child.End()
			}
		}
		root.End()
		if diff := cmp.Diff("4 0 1", sent(t, out)); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
		k.empty(t)
	})
	t.Run("all groups", func(t *testing.T) {
		t.Parallel()
		tracer, out, k := kept(t, 0, func(k *errorKeeper) { k.most = 4 })
		var roots []trace.Span
		for n := range 3 { // two spans each
			ctx, root := tracer.Start(t.Context(), fmt.Sprint("root", n))
			_, child := tracer.Start(ctx, fmt.Sprint("child", n))
			if n == 0 {
				fail(child)
			} else {
				child.End()
			}
			roots = append(roots, root)
		}
		if got := sent(t, out); got != "child0" { // it was given up to make room, and had failed
			t.Errorf("sent %q", got)
		}
		k.mu.Lock()
		if n := k.held + len(k.open); n > 4 {
			t.Errorf("%d spans are held", n)
		}
		k.mu.Unlock()
		for _, r := range roots {
			fail(r)
		}
		if diff := cmp.Diff("child0 root0 child1 root1 child2 root2", sent(t, out)); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
		k.empty(t)
	})
}

func TestAtTheEndOpenGroupsThatFailedAreSent(t *testing.T) {
	t.Parallel()
	tracer, out, k := kept(t, 0, nil)
	for _, name := range []string{"good", "bad"} {
		ctx, _ := tracer.Start(t.Context(), "open")
		_, child := tracer.Start(ctx, name)
		if name == "bad" {
			fail(child)
		} else {
			child.End()
		}
	}
	flushed := &flushCounter{}
	k.next = flushed
	if err := k.Shutdown(t.Context()); !errors.Is(err, errShutdown) {
		t.Errorf("Shutdown: %v, want its exporter's error", err)
	}
	if diff := cmp.Diff([]string{"bad"}, flushed.ended); diff != "" || len(out.GetSpans()) != 0 {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
	k.empty(t)
}

var errShutdown = errors.New("shut down")

type flushCounter struct{ ended []string }

func (*flushCounter) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (f *flushCounter) OnEnd(s sdktrace.ReadOnlySpan)                 { f.ended = append(f.ended, s.Name()) }
func (*flushCounter) Shutdown(context.Context) error                  { return errShutdown }
func (*flushCounter) ForceFlush(context.Context) error                { return nil }
