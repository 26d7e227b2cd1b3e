package webhook

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// backlogTimeout bounds the query behind the gauge, which runs when metrics are read.
const backlogTimeout = time.Second

type metrics struct {
	deliveries metric.Int64Counter
	skew       metric.Float64Histogram
}

func newMetrics(meter metric.Meter, in *Inbox) (metrics, error) {
	deliveries, err1 := meter.Int64Counter("chargeonce.webhook.deliveries", metric.WithUnit("{delivery}"),
		metric.WithDescription("Deliveries of events, by what became of them: an outcome, or the reason of a refusal."))
	skew, err2 := meter.Float64Histogram("chargeonce.webhook.skew", metric.WithUnit("s"),
		metric.WithDescription("Our clock minus the time of accepted deliveries: positive when they are old."),
		metric.WithExplicitBucketBoundaries(-300, -60, -10, -2, -0.5, 0.5, 2, 10, 60, 300))
	_, err3 := meter.Int64ObservableGauge("chargeonce.webhook.inbox", metric.WithUnit("{event}"),
		metric.WithDescription("Events that wait to be tried again (failed), were set aside (dead), or tell of a charge after a refusal."),
		metric.WithInt64Callback(func(ctx context.Context, o metric.Int64Observer) error {
			ctx, cancel := context.WithTimeout(ctx, backlogTimeout)
			defer cancel()
			failed, dead, charged, err := in.Backlog(ctx)
			if err != nil {
				return err
			}
			observe := func(n int, state string) {
				o.Observe(int64(n), metric.WithAttributes(attribute.String("state", state)))
			}
			observe(failed, string(Failed))
			observe(dead, string(Dead))
			observe(charged, "charged_after_refusal")
			return nil
		}))
	return metrics{deliveries: deliveries, skew: skew}, errors.Join(err1, err2, err3)
}

func (m metrics) count(ctx context.Context, outcome string) {
	m.deliveries.Add(ctx, 1, metric.WithAttributes(attribute.String("outcome", outcome)))
}

func (m metrics) skewed(ctx context.Context, d time.Duration) { m.skew.Record(ctx, d.Seconds()) }
