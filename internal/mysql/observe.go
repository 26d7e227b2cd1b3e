package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// Observe has meter tell how the pool of db stands, under the name pool: connections by the semantic conventions, and how often and
// how long statements waited for one. stop takes it down.
func Observe(meter metric.Meter, db *sql.DB, pool string) (stop func() error, err error) {
	count, err1 := meter.Int64ObservableUpDownCounter("db.client.connection.count", metric.WithUnit("{connection}"),
		metric.WithDescription("Connections that are open, by state."))
	most, err2 := meter.Int64ObservableUpDownCounter("db.client.connection.max", metric.WithUnit("{connection}"),
		metric.WithDescription("How many connections may be open."))
	waits, err3 := meter.Int64ObservableCounter("chargeonce.mysql.pool.waits", metric.WithUnit("{wait}"),
		metric.WithDescription("Times that a statement had to wait for a connection."))
	waited, err4 := meter.Float64ObservableCounter("chargeonce.mysql.pool.wait", metric.WithUnit("s"),
		metric.WithDescription("How long statements waited for connections, in all."))
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, fmt.Errorf("mysql: metrics: %w", err)
	}
	name := semconv.DBClientConnectionPoolName(pool)
	named := metric.WithAttributes(name)
	used, idle := metric.WithAttributes(name, semconv.DBClientConnectionStateUsed), metric.WithAttributes(name, semconv.DBClientConnectionStateIdle)
	r, err := meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		s := db.Stats()
		to.ObserveInt64(count, int64(s.InUse), used)
		to.ObserveInt64(count, int64(s.Idle), idle)
		to.ObserveInt64(most, int64(s.MaxOpenConnections), named)
		to.ObserveInt64(waits, s.WaitCount, named)
		to.ObserveFloat64(waited, s.WaitDuration.Seconds(), named)
		return nil
	}, count, most, waits, waited)
	if err != nil {
		return nil, fmt.Errorf("mysql: metrics: %w", err)
	}
	return r.Unregister, nil
}
