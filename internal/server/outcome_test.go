package server

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	paymentsv1 "chargeonce/api/payments/v1"
)

// Which answers count against the objective, of every reason that there is.
func TestWhatCountsForTheObjective(t *testing.T) {
	t.Parallel()
	against := map[paymentsv1.Reason]bool{
		paymentsv1.Reason_PSP_UNAVAILABLE: true, paymentsv1.Reason_OVERLOADED: true, paymentsv1.Reason_PSP_OUTCOME_UNKNOWN: true,
		paymentsv1.Reason_DEADLINE_EXCEEDED: true, paymentsv1.Reason_UNAVAILABLE: true, paymentsv1.Reason_INTERNAL: true,
	}
	for reason := range rows {
		want := outcomeRefused
		if against[reason] {
			want = outcomeFailed
		}
		if got := outcomeOf(t.Context(), &problem{reason: reason}, 0); got != want {
			t.Errorf("%s: %s, want %s", reason, got, want)
		}
		if got := outcomeOf(t.Context(), &problem{reason: reason, stored: &document{}}, 0); got != outcomeAnswered {
			t.Errorf("%s, stored: %s", reason, got)
		}
	}
	if got := outcomeOf(t.Context(), nil, time.Minute); got != outcomeAnswered {
		t.Errorf("no error: %s", got)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	late := &problem{reason: paymentsv1.Reason_DEADLINE_EXCEEDED}
	for took, want := range map[time.Duration]outcome{promised - 1: outcomeLeft, promised: outcomeFailed} {
		if got := outcomeOf(gone, late, took); got != want {
			t.Errorf("the caller left after %s: %s, want %s", took, got, want)
		}
	}
	if got := outcomeOf(gone, nil, 0); got != outcomeAnswered {
		t.Errorf("answered, and the caller left: %s", got)
	}
}

func TestRequestsInFlightAndTheModeAreToldUntilTheServerEnds(t *testing.T) {
	t.Parallel()
	l, mode := &load{most: 3}, newReadOnly(t.Context(), false, slog.New(slog.DiscardHandler))
	reader := sdkmetric.NewManualReader()
	m, err := newMetrics(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test"), l, mode)
	if err != nil {
		t.Fatal(err)
	}
	read := func() map[string]int64 {
		var data metricdata.ResourceMetrics
		if err := reader.Collect(t.Context(), &data); err != nil {
			t.Fatal(err)
		}
		out := map[string]int64{}
		for _, s := range data.ScopeMetrics {
			for _, m := range s.Metrics {
				switch d := m.Data.(type) {
				case metricdata.Sum[int64]:
					out[strings.TrimPrefix(m.Name, "chargeonce.")] = d.DataPoints[0].Value
				case metricdata.Gauge[int64]:
					out[strings.TrimPrefix(m.Name, "chargeonce.")] = d.DataPoints[0].Value
				}
			}
		}
		return out
	}
	slot, err := l.enter()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int64{"requests.in_flight": 1, "requests.in_flight.limit": 3, "read_only": 0}, read()); diff != "" {
		t.Errorf("one request (-want +got):\n%s", diff)
	}
	slot.leave()
	mode.set(t.Context(), true)
	if diff := cmp.Diff(map[string]int64{"requests.in_flight": 0, "requests.in_flight.limit": 3, "read_only": 1}, read()); diff != "" {
		t.Errorf("it ended, and the mode was switched (-want +got):\n%s", diff)
	}
	if err := m.close(); err != nil {
		t.Fatal(err)
	}
	if got := read(); len(got) != 0 {
		t.Errorf("closed: %v", got)
	}
}
