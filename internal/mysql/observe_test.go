package mysql_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"chargeonce/internal/mysql"
)

func TestThePoolTellsHowItStands(t *testing.T) {
	t.Parallel()
	db, err := mysql.Open(mysql.NewTestDB(t).DSN, mysql.Options{MaxOpen: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	reader := sdkmetric.NewManualReader()
	stop, err := mysql.Observe(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test"), db, "orders")
	if err != nil {
		t.Fatal(err)
	}
	first, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := db.Conn(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a third connection of two: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}

	want := []string{
		"chargeonce.mysql.pool.waits{orders} 1",
		"chargeonce.mysql.pool.wait{orders} > 0",
		"db.client.connection.count{orders idle} 1",
		"db.client.connection.count{orders used} 1",
		"db.client.connection.max{orders} 2",
	}
	if diff := cmp.Diff(want, poolMetrics(t, reader)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	if err := errors.Join(first.Close(), stop()); err != nil {
		t.Fatal(err)
	}
	if got := poolMetrics(t, reader); got != nil {
		t.Errorf("after stop: %q", got)
	}
}

func poolMetrics(t *testing.T, reader *sdkmetric.ManualReader) []string {
	t.Helper()
	var data metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &data); err != nil {
		t.Fatal(err)
	}
	var lines []string
	add := func(name string, labels attribute.Set, value string) {
		var values []string
		for _, kv := range labels.ToSlice() {
			values = append(values, kv.Value.String())
		}
		lines = append(lines, fmt.Sprintf("%s{%s} %s", name, strings.Join(values, " "), value))
	}
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					add(m.Name, p.Attributes, fmt.Sprint(p.Value))
				}
			case metricdata.Sum[float64]:
				for _, p := range d.DataPoints {
					if p.Value > 0 {
						add(m.Name, p.Attributes, "> 0")
					}
				}
			default:
				t.Fatalf("%s is a %T", m.Name, m.Data)
			}
		}
	}
	slices.Sort(lines)
	return lines
}
