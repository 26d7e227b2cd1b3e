package server_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"google.golang.org/grpc/codes"

	paymentsv1 "chargeonce/api/payments/v1"
)

// scrape reads what Prometheus would.
func scrape(t *testing.T) string {
	t.Helper()
	w := httptest.NewRecorder()
	metrics.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

func scraped(t *testing.T, name string) *dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(scrape(t)))
	if err != nil {
		t.Fatal(err)
	}
	if families[name] == nil {
		t.Fatalf("there is no %s among %v", name, slices.Sorted(maps.Keys(families)))
	}
	return families[name]
}

// The labels of a request have few values, whatever was asked for; the objective's second is a bucket of its own.
func TestRequestsAreMeasuredUnderFewLabels(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	auth := http.Header{"Authorization": {"Bearer " + e.apiKey}}
	for _, r := range []struct{ method, path string }{
		{"BREW", "/payments"}, {"GET", "/" + unique("path")}, {"DELETE", "/payments/" + unique("id")}, {"OPTIONS", "/payments"},
		{"GET", "/payments/" + unique("id")}, {"GET", "/payments?x=" + unique("q")}, {"PATCH", "/" + unique("p")}, {"POST", "/payments"},
	} {
		e.do(r.method, r.path, auth, http.NoBody)
	}
	e.get("/payments", auth)

	allowed := map[string]map[string]bool{
		"method":  set("CreatePayment", "GetPayment", "ListPayments", "other"),
		"face":    set("grpc", "rest"),
		"code":    set(""),
		"reason":  set("", "OTHER"),
		"outcome": set("answered", "refused", "failed", "left"),
	}
	for c := codes.OK; c <= codes.Unauthenticated; c++ {
		allowed["code"][c.String()] = true
	}
	for _, reason := range paymentsv1.Reason_name {
		allowed["reason"][reason] = true
	}
	seen := map[string]bool{}
	for _, m := range scraped(t, "chargeonce_request_duration_seconds").GetMetric() {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
			if !allowed[l.GetName()][l.GetValue()] {
				t.Errorf("label %s=%q", l.GetName(), l.GetValue())
			}
		}
		seen[labels["method"]+" "+labels["face"]+" "+labels["reason"]+" "+labels["outcome"]] = true
		bounds := []float64{}
		for _, b := range m.GetHistogram().GetBucket() {
			bounds = append(bounds, b.GetUpperBound())
		}
		if !slices.Contains(bounds, 1) {
			t.Errorf("no bucket ends at 1 s: %v", bounds)
		}
	}
	for _, want := range []string{"other rest METHOD_NOT_ALLOWED refused", "other rest NOT_FOUND refused", "GetPayment rest REQUEST_INVALID refused",
		"ListPayments rest REQUEST_INVALID refused", "ListPayments rest  answered"} {
		if !seen[want] {
			t.Errorf("not measured: %q of %v", want, slices.Sorted(maps.Keys(seen)))
		}
	}
}

func set(values ...string) map[string]bool {
	out := map[string]bool{}
	for _, v := range values {
		out[v] = true
	}
	return out
}
