package idempotency_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace"

	"chargeonce/internal/mysql"
)

// traced is a context within the span of that number.
func traced(ctx context.Context, n byte) context.Context {
	return trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{15: n}, SpanID: trace.SpanID{7: n}, TraceFlags: trace.FlagsSampled,
	}))
}

func testTheRowNamesTheTraceOfTheLastAttempt(t *testing.T, newStore newStore) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	s := newStore(db.DB)
	var got []string
	look := func() { got = append(got, read(t, s, "k").Traceparent) }

	if _, err := s.Acquire(traced(testCtx(t), 1), claim(t, "k", "100")); err != nil {
		t.Fatal(err)
	}
	look()
	expire(t, db, "k")
	if _, err := s.TakeOver(traced(testCtx(t), 2), read(t, s, "k"), time.Hour); err != nil { // reconciliation: it sets out to charge nothing
		t.Fatal(err)
	}
	look()
	expire(t, db, "k")
	if _, err := s.Acquire(traced(testCtx(t), 3), claim(t, "k", "100")); err != nil {
		t.Fatal(err)
	}
	look()
	expire(t, db, "k")
	acquire(t, s, claim(t, "k", "100"))
	look()
	want := []string{
		"00-00000000000000000000000000000001-0000000000000001-01",
		"00-00000000000000000000000000000001-0000000000000001-01",
		"00-00000000000000000000000000000003-0000000000000003-01",
		"",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("traceparent after a claim, reconciliation, a retry, a retry that is not traced (-want +got):\n%s", diff)
	}
}
