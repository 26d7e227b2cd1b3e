package reconcile

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/metric"

	"chargeonce/internal/idempotency"
)

const (
	// Not by locked_until: a pass that asks and has to leave a key moves that, and not the time of the last attempt.
	stuckNowSQL = `
		SELECT COUNT(*), COALESCE(MAX(TIMESTAMPDIFF(MICROSECOND, attempted_at, NOW(3))), 0)
		FROM idempotency_keys WHERE status = 'processing' AND attempted_at <= NOW(3) - INTERVAL ? MICROSECOND`

	lastRunSQL = `SELECT counts FROM reconcile_runs ORDER BY started_at DESC LIMIT 1`
)

const (
	// stuckAfter is how long ago a key was last attempted for the gauges to call it stuck: far longer than a request may take.
	stuckAfter = 2 * time.Minute
	// watchTimeout bounds the queries behind the gauges, which run when metrics are read.
	watchTimeout = time.Second
)

// Watch has meter tell how things stand by the database: the keys that are stuck or parked, and what the last pass left. So it is told by
// every process that serves metrics, whether passes run in it, or elsewhere as a cron job that is over before anybody asks, or not at
// all. db must have been opened by package mysql. stop takes it down.
func Watch(meter metric.Meter, db *sql.DB) (stop func() error, err error) {
	stuck, err1 := meter.Int64ObservableGauge("chargeonce.keys.stuck", metric.WithUnit("{key}"),
		metric.WithDescription("Keys that are processing though they were last attempted two minutes ago or longer."))
	oldest, err2 := meter.Float64ObservableGauge("chargeonce.keys.oldest_stuck", metric.WithUnit("s"),
		metric.WithDescription("Time since the last attempt at the stuck key whose last attempt is oldest; 0 when none is stuck."))
	parked, err3 := meter.Int64ObservableGauge("chargeonce.keys.parked", metric.WithUnit("{key}"),
		metric.WithDescription("Keys that wait for a person."))
	last, err4 := meter.Float64ObservableGauge("chargeonce.reconcile.last_pass_timestamp", metric.WithUnit("s"),
		metric.WithDescription("When the last pass began, by the database's clock, in Unix time."))
	unknown, err5 := meter.Int64ObservableGauge("chargeonce.reconcile.psp_unknown", metric.WithUnit("{item}"),
		metric.WithDescription("Keys and charges that the last pass left open since the PSP did not say."))
	findings, err6 := meter.Int64ObservableGauge("chargeonce.reconcile.findings", metric.WithUnit("{finding}"),
		metric.WithDescription("What the last pass found that no program should mend."))
	if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil {
		return nil, fmt.Errorf("reconcile: metrics: %w", err)
	}
	keys := idempotency.NewStore(db)
	r, err := meter.RegisterCallback(func(ctx context.Context, to metric.Observer) error {
		ctx, cancel := context.WithTimeout(ctx, watchTimeout)
		defer cancel()
		var n, age int64
		if err := db.QueryRowContext(ctx, stuckNowSQL, stuckAfter.Microseconds()).Scan(&n, &age); err != nil {
			return fmt.Errorf("reconcile: count the stuck keys: %w", err)
		}
		waiting, err := keys.CountParked(ctx)
		if err != nil {
			return fmt.Errorf("reconcile: %w", err)
		}
		to.ObserveInt64(stuck, n)
		to.ObserveFloat64(oldest, (time.Duration(age) * time.Microsecond).Seconds())
		to.ObserveInt64(parked, int64(waiting))
		rep, err := lastRun(ctx, db)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		to.ObserveFloat64(last, float64(rep.StartedAt.UnixMilli())/1000)
		to.ObserveInt64(unknown, int64(rep.Stuck.Unknown+rep.Pending.Unknown))
		to.ObserveInt64(findings, int64(rep.Found))
		return nil
	}, stuck, oldest, parked, last, unknown, findings)
	if err != nil {
		return nil, fmt.Errorf("reconcile: metrics: %w", err)
	}
	return r.Unregister, nil
}

// lastRun reads the report of the last pass; sql.ErrNoRows: there was none.
func lastRun(ctx context.Context, db *sql.DB) (Report, error) {
	var text []byte
	var rep Report
	if err := db.QueryRowContext(ctx, lastRunSQL).Scan(&text); err != nil {
		return rep, fmt.Errorf("reconcile: read the last pass: %w", err)
	}
	if err := json.Unmarshal(text, &rep); err != nil {
		return rep, fmt.Errorf("reconcile: read the last pass: %w", err)
	}
	return rep, nil
}
