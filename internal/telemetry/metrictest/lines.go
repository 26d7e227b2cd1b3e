// Package metrictest reads metrics in tests.
package metrictest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// Options say how lines are written.
type Options struct {
	// Prefix is cut from the instruments' names.
	Prefix string
	// Without are labels that are left out.
	Without []attribute.Key
	// Sums has a histogram tell its sum in whole seconds beside its count, for a test whose clock stands still.
	Sums bool
}

// Lines reads every instrument as lines "name{labels} value", sorted; of a histogram the value is its count.
func Lines(t *testing.T, reader *sdkmetric.ManualReader, o Options) []string {
	t.Helper()
	var data metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &data); err != nil {
		t.Fatal(err)
	}
	var lines []string
	line := func(name string, labels attribute.Set, value any) {
		var values []string
		for _, kv := range labels.ToSlice() {
			if !slices.Contains(o.Without, kv.Key) {
				values = append(values, kv.Value.String())
			}
		}
		lines = append(lines, fmt.Sprintf("%s{%s} %v", strings.TrimPrefix(name, o.Prefix), strings.Join(values, " "), value))
	}
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					if o.Sums {
						line(m.Name, p.Attributes, fmt.Sprintf("%d, %.0f s in all", p.Count, p.Sum))
						continue
					}
					line(m.Name, p.Attributes, p.Count)
				}
			case metricdata.Sum[int64]:
				points(d.DataPoints, m.Name, line)
			case metricdata.Gauge[int64]:
				points(d.DataPoints, m.Name, line)
			case metricdata.Gauge[float64]:
				points(d.DataPoints, m.Name, line)
			default:
				t.Fatalf("%s is a %T", m.Name, m.Data)
			}
		}
	}
	slices.Sort(lines)
	return lines
}

func points[N int64 | float64](all []metricdata.DataPoint[N], name string, line func(string, attribute.Set, any)) {
	for _, p := range all {
		line(name, p.Attributes, p.Value)
	}
}
