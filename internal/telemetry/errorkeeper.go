package telemetry

import (
	"container/list"
	"context"
	"sync"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// The bounds of what an errorKeeper holds: about 30 MB in the worst case.
const (
	maxKept         = 16384 // spans in all, open ones included
	maxKeptPerGroup = 64    // spans of one group that have ended
)

// errorKeeper sends sampled spans on at once. Those that are not sampled it keeps until the last span of their group has ended, and
// sends them on too if one of them ended in an error. A group is the spans of one trace that were open in this process
// without a break: a request with all that it caused.
//
// When there is more than fits, the oldest group is given up. A span beyond a group's bound is dropped, unless it is itself an error.
type errorKeeper struct {
	next     sdktrace.SpanProcessor
	most     int
	perGroup int

	mu   sync.Mutex
	open map[trace.SpanID]*group
	ages list.List // of *group, oldest first
	held int       // spans that have ended and are kept
}

type group struct {
	trace  trace.TraceID
	age    *list.Element
	open   map[trace.SpanID]struct{}
	ended  []sdktrace.ReadOnlySpan
	failed bool
}

func newErrorKeeper(next sdktrace.SpanProcessor) *errorKeeper {
	return &errorKeeper{next: next, most: maxKept, perGroup: maxKeptPerGroup, open: map[trace.SpanID]*group{}}
}

// OnStart implements sdktrace.SpanProcessor.
func (k *errorKeeper) OnStart(ctx context.Context, s sdktrace.ReadWriteSpan) {
	k.next.OnStart(ctx, s)
	id := s.SpanContext()
	if id.IsSampled() {
		return
	}
	k.mu.Lock()
	// A parent of another process is not among the open ones: the span begins a group then.
	g := k.open[s.Parent().SpanID()]
	if g == nil || g.trace != id.TraceID() {
		g = &group{trace: id.TraceID(), open: map[trace.SpanID]struct{}{}}
		g.age = k.ages.PushBack(g)
	}
	g.open[id.SpanID()] = struct{}{}
	k.open[id.SpanID()] = g
	out := k.shrink()
	k.mu.Unlock()
	k.send(out)
}

// OnEnd implements sdktrace.SpanProcessor.
func (k *errorKeeper) OnEnd(s sdktrace.ReadOnlySpan) {
	if s.SpanContext().IsSampled() {
		k.next.OnEnd(s)
		return
	}
	k.mu.Lock()
	out := k.ended(s)
	out = append(out, k.shrink()...)
	k.mu.Unlock()
	k.send(out)
}

// ended notes the end of a span and returns what is to be sent now.
func (k *errorKeeper) ended(s sdktrace.ReadOnlySpan) []sdktrace.ReadOnlySpan {
	failed := s.Status().Code == codes.Error
	id := s.SpanContext().SpanID()
	g := k.open[id]
	if g == nil { // given up
		if failed {
			return []sdktrace.ReadOnlySpan{s}
		}
		return nil
	}
	delete(k.open, id)
	delete(g.open, id)
	g.failed = g.failed || failed
	var out []sdktrace.ReadOnlySpan
	switch {
	case len(g.ended) < k.perGroup:
		g.ended = append(g.ended, s)
		k.held++
	case failed:
		out = append(out, s)
	}
	if len(g.open) == 0 {
		out = append(out, k.giveUp(g)...)
	}
	return out
}

// giveUp forgets a group and returns its spans if they are to be sent.
func (k *errorKeeper) giveUp(g *group) []sdktrace.ReadOnlySpan {
	k.ages.Remove(g.age)
	for id := range g.open {
		delete(k.open, id)
	}
	k.held -= len(g.ended)
	if !g.failed {
		return nil
	}
	return g.ended
}

// shrink gives the oldest groups up until the rest fits, and returns the spans of those that failed.
func (k *errorKeeper) shrink() []sdktrace.ReadOnlySpan {
	var out []sdktrace.ReadOnlySpan
	for k.held+len(k.open) > k.most {
		g, ok := k.ages.Front().Value.(*group)
		if !ok {
			break
		}
		out = append(out, k.giveUp(g)...)
	}
	return out
}

func (k *errorKeeper) send(spans []sdktrace.ReadOnlySpan) {
	for _, s := range spans {
		k.next.OnEnd(asSampled{s})
	}
}

// ForceFlush implements sdktrace.SpanProcessor. Groups that are open stay.
func (k *errorKeeper) ForceFlush(ctx context.Context) error { return k.next.ForceFlush(ctx) }

// Shutdown implements sdktrace.SpanProcessor. Of the groups that are open, those that failed are sent as far as they are known.
func (k *errorKeeper) Shutdown(ctx context.Context) error {
	k.mu.Lock()
	var out []sdktrace.ReadOnlySpan
	for e := k.ages.Front(); e != nil; e = k.ages.Front() {
		g, ok := e.Value.(*group)
		if !ok {
			break
		}
		out = append(out, k.giveUp(g)...)
	}
	k.mu.Unlock()
	k.send(out)
	return k.next.Shutdown(ctx)
}

// asSampled is a span that was not to be sent and is.
type asSampled struct{ sdktrace.ReadOnlySpan }

// SpanContext implements sdktrace.ReadOnlySpan.
func (s asSampled) SpanContext() trace.SpanContext {
	c := s.ReadOnlySpan.SpanContext()
	return c.WithTraceFlags(c.TraceFlags() | trace.FlagsSampled)
}
