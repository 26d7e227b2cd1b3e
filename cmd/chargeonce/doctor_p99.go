package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"chargeonce/internal/psp"
)

const (
	// leastCharges is how many charges make a p99 worth something.
	leastCharges = 100
	// maxMetrics bounds what is read of a server's metrics.
	maxMetrics = 16 << 20

	attemptDurations = "chargeonce_psp_attempt_duration_seconds"
)

// quantile lies between two bounds: those of its bucket.
type quantile struct{ least, most time.Duration }

// measuredP99 reads from a server's metrics how long the attempts took that the PSP answered: the 99th percentile, and how many
// there were.
func measuredP99(ctx context.Context, adminURL string) (p99 quantile, charges uint64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(adminURL, "/")+"/metrics", nil)
	if err != nil {
		return quantile{}, 0, fmt.Errorf("--admin-url: %w", err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // ctx bounds it
	resp, err := client.Do(req)
	if err != nil {
		return quantile{}, 0, fmt.Errorf("--admin-url: %w", err)
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode != http.StatusOK {
		return quantile{}, 0, fmt.Errorf("--admin-url: %s", resp.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(io.LimitReader(resp.Body, maxMetrics))
	if err != nil {
		return quantile{}, 0, fmt.Errorf("--admin-url: its metrics can't be read: %w", err)
	}
	p99, charges = quantile99(families[attemptDurations])
	return p99, charges, nil
}

// quantile99 adds up the histograms of all charges that were answered, whatever the answer.
func quantile99(family *dto.MetricFamily) (q quantile, charges uint64) {
	upTo := map[float64]uint64{}
	for _, m := range family.GetMetric() {
		if !answeredCharge(m) {
			continue
		}
		charges += m.GetHistogram().GetSampleCount()
		for _, b := range m.GetHistogram().GetBucket() {
			upTo[b.GetUpperBound()] += b.GetCumulativeCount()
		}
	}
	for _, bound := range slices.Sorted(maps.Keys(upTo)) {
		q.least, q.most = q.most, seconds(bound)
		if upTo[bound]*100 >= charges*99 {
			break
		}
	}
	return q, charges
}

func seconds(s float64) time.Duration {
	if math.IsInf(s, 1) {
		return math.MaxInt64
	}
	return time.Duration(s * float64(time.Second))
}

// answeredCharge leaves out the attempts that ended without an answer: how long that would have taken is not known.
func answeredCharge(m *dto.Metric) bool {
	labels := map[string]string{}
	for _, l := range m.GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	return labels["psp_operation"] == "charge" && labels["psp_outcome"] != psp.Unknown.String() && labels["psp_outcome"] != psp.NotSent.String()
}
