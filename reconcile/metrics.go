package reconcile

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// metrics are written once, at the end of each pass that is no dry run. Every label has a handful of values. How things stand, and not what
// this process did, is told by [Watch].
type metrics struct {
	passes   metric.Int64Counter
	duration metric.Float64Histogram
	outcomes metric.Int64Counter
}

func newMetrics(meter metric.Meter) (metrics, error) {
	passes, err1 := meter.Int64Counter("chargeonce.reconcile.passes", metric.WithUnit("{pass}"),
		metric.WithDescription("Passes, by how they ended: clean, needs_person or could_not_run."))
	duration, err2 := meter.Float64Histogram("chargeonce.reconcile.duration", metric.WithUnit("s"),
		metric.WithDescription("How long a pass took."),
		metric.WithExplicitBucketBoundaries(0.1, 0.5, 1, 5, 10, 30, 60, 300, 600))
	outcomes, err3 := meter.Int64Counter("chargeonce.reconcile.outcomes", metric.WithUnit("{item}"),
		metric.WithDescription("What passes dealt with, by phase (stuck, pending, statement, inbox, purge) and outcome."))
	return metrics{passes: passes, duration: duration, outcomes: outcomes}, errors.Join(err1, err2, err3)
}

// outcome is one count of a report.
type outcome struct {
	phase, name string
	n           int
}

func (r Report) outcomes() []outcome {
	return []outcome{
		{"stuck", "charged", r.Stuck.Charged}, {"stuck", "refused", r.Stuck.Refused}, {"stuck", "abandoned", r.Stuck.Abandoned},
		{"stuck", "parked", r.Stuck.Parked}, {"stuck", "too_young", r.Stuck.TooYoung}, {"stuck", "unknown", r.Stuck.Unknown},
		{"stuck", "other", r.Stuck.Other},
		{"pending", "changed", r.Pending.Changed}, {"pending", "still_pending", r.Pending.Still}, {"pending", "unknown", r.Pending.Unknown},
		{"statement", "written", r.Statement.Written}, {"statement", "raised", r.Statement.Raised},
		{"inbox", "applied", r.Events.Applied}, {"inbox", "failed", r.Events.Failed}, {"inbox", "died", r.Events.Died},
		{"purge", "keys", r.Purged.Keys}, {"purge", "compacted", r.Purged.Compacted}, {"purge", "events", r.Purged.Events},
	}
}

// record writes what a pass did. failed says that it ended with an error.
func (m metrics) record(ctx context.Context, r Report, failed bool) {
	m.passes.Add(ctx, 1, withLabel("outcome", result(r, failed)))
	m.duration.Record(ctx, (time.Duration(r.DurationMS) * time.Millisecond).Seconds())
	for _, o := range r.outcomes() {
		if o.n > 0 {
			m.outcomes.Add(ctx, int64(o.n), metric.WithAttributes(attribute.String("phase", o.phase), attribute.String("outcome", o.name)))
		}
	}
}

func result(r Report, failed bool) string {
	switch {
	case failed:
		return "could_not_run"
	case r.ExitCode() == ExitNeedsPerson:
		return "needs_person"
	case r.ExitCode() == ExitClean:
		return "clean"
	}
	return "could_not_run"
}

func withLabel(key, value string) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String(key, value))
}
