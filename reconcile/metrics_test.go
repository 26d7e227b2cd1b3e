package reconcile

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"chargeonce/internal/telemetry/metrictest"
)

// What passes did adds up.
func TestMetricsTellWhatPassesDid(t *testing.T) {
	t.Parallel()
	reader := sdkmetric.NewManualReader()
	m, err := newMetrics(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test"))
	if err != nil {
		t.Fatal(err)
	}
	m.record(t.Context(), Report{
		DurationMS: 1500,
		Stuck:      Stuck{Seen: 28, OldestMS: 90_500, Charged: 1, Refused: 2, Abandoned: 3, Parked: 4, TooYoung: 5, Unknown: 6, Other: 7},
		Pending:    Pending{Asked: 6, Changed: 1, Still: 2, Unknown: 3},
		Statement:  Statement{Read: 100, Written: 1, Raised: 2},
		Events:     Events{Applied: 1, Failed: 2, Died: 3, Waiting: 9, Dead: 3, ChargedAfterRefusal: 1},
		Purged:     Purged{Keys: 1, Compacted: 2, Events: 3},
		Parked:     4, Found: 5, NeedsPerson: 13,
	}, false)
	m.record(t.Context(), Report{Stuck: Stuck{Seen: 1, OldestMS: 30_000, Charged: 1}, Parked: 1, NeedsPerson: 1}, false)
	m.record(t.Context(), Report{PSPDown: true, Parked: 2, Stuck: Stuck{OldestMS: 60_000}}, false)
	m.record(t.Context(), Report{}, true)
	m.record(t.Context(), Report{Stuck: Stuck{OldestMS: 2000}}, false)
	want := []string{
		"duration{} 5",
		"outcomes{abandoned stuck} 3", "outcomes{applied inbox} 1", "outcomes{changed pending} 1", "outcomes{charged stuck} 2",
		"outcomes{compacted purge} 2", "outcomes{died inbox} 3", "outcomes{events purge} 3", "outcomes{failed inbox} 2",
		"outcomes{keys purge} 1", "outcomes{other stuck} 7", "outcomes{parked stuck} 4", "outcomes{raised statement} 2",
		"outcomes{refused stuck} 2", "outcomes{still_pending pending} 2", "outcomes{too_young stuck} 5", "outcomes{unknown pending} 3",
		"outcomes{unknown stuck} 6", "outcomes{written statement} 1",
		"passes{clean} 1", "passes{could_not_run} 2", "passes{needs_person} 2",
	}
	if diff := cmp.Diff(want, metrictest.Lines(t, reader, metrictest.Options{Prefix: "chargeonce.reconcile."})); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}
