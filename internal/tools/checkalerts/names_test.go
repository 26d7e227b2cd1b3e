package checkalerts

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

var (
	// target are the labels that Prometheus gives to all it scrapes.
	target = []string{"job", "instance"}
	// libraries are the metrics that are not ours, by the beginnings of their names.
	libraries = []string{"go_", "process_"}
	// foreign are single ones, with the labels that they have besides.
	foreign = map[string][]string{"up": nil, "target_info": {"service_name", "service_version"}, "ALERTS": {"alertname", "alertstate", "severity"}}
	// nameLabel is under which the parser keeps a selector's name.
	nameLabel = "__name__"
	// parts are what the series of a histogram are called.
	parts = []string{"_bucket", "_count", "_sum"}
	// alternatives is a regular expression that lists values.
	alternatives = regexp.MustCompile(`^[A-Za-z0-9_|-]+$`)
)

// names are those that an expression may use: the documented metrics, and what recording rules make, which has no labels here.
type names struct {
	metrics  map[string]metric
	recorded map[string]bool
}

// check tells what an expression names that there is not. used are labels that it is shown with.
func (n names) check(expr string, used ...string) error {
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		return fmt.Errorf("%s: %w", expr, err)
	}
	var all []error
	known := slices.Clone(target)
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		switch e := node.(type) {
		case *parser.VectorSelector:
			has, err := n.selector(e)
			known = append(known, has...)
			all = append(all, err)
		case *parser.AggregateExpr:
			used = append(used, e.Grouping...)
		case *parser.BinaryExpr:
			if e.VectorMatching != nil {
				used = append(append(used, e.VectorMatching.MatchingLabels...), e.VectorMatching.Include...)
			}
		}
		return nil
	})
	for _, l := range used {
		if !slices.Contains(known, l) {
			all = append(all, fmt.Errorf("nothing in it has a label %s", l))
		}
	}
	if err := errors.Join(all...); err != nil {
		return fmt.Errorf("%s\n  %w", expr, err)
	}
	return nil
}

// selector checks one selector, and returns the labels that its series have.
func (n names) selector(s *parser.VectorSelector) ([]string, error) {
	m, ok := n.metrics[s.Name]
	known := slices.Clone(target)
	for _, part := range parts {
		whole, cut := strings.CutSuffix(s.Name, part)
		if h := n.metrics[whole]; cut && h.kind == "histogram" {
			m, ok = h, true
			if part == "_bucket" {
				known = append(known, labels.BucketLabel)
			}
		}
	}
	if ok && m.kind == "histogram" && m.name == s.Name {
		return nil, fmt.Errorf("%s is a histogram: it has %v", s.Name, parts)
	}
	for l := range m.labels {
		known = append(known, l)
	}
	if !ok {
		extra, one := foreign[s.Name]
		if !one && !n.recorded[s.Name] && !slices.ContainsFunc(libraries, func(p string) bool { return strings.HasPrefix(s.Name, p) }) {
			return nil, fmt.Errorf("there is no metric %s", s.Name)
		}
		return append(known, append(extra, "quantile")...), nil
	}
	var all []error
	for _, match := range s.LabelMatchers {
		if match.Name == nameLabel || slices.Contains(target, match.Name) || match.Name == labels.BucketLabel && slices.Contains(known, labels.BucketLabel) {
			continue
		}
		values := []string{match.Value}
		if match.Type == labels.MatchRegexp || match.Type == labels.MatchNotRegexp {
			values = nil
			if !alternatives.MatchString(match.Value) {
				all = append(all, fmt.Errorf("%s: list the values: %s", s.Name, match))
			} else {
				values = strings.Split(match.Value, "|")
			}
		}
		for _, v := range values {
			all = append(all, m.has(match.Name, v))
		}
	}
	return known, errors.Join(all...)
}

// Every metric, label and value that a rule or a dashboard names is documented.
func TestRulesAndDashboardsNameWhatThereIs(t *testing.T) {
	t.Parallel()
	n := names{metrics: documented(t), recorded: map[string]bool{}}
	all := rules(t)
	for _, r := range all {
		n.recorded[r.Record] = true
	}
	for _, r := range all {
		if err := n.check(r.Expr, placeholders(r.Annotations)...); err != nil {
			t.Errorf("%s%s: %v", r.Record, r.Alert, err)
		}
	}
	for _, q := range dashboardQueries(t) {
		if err := n.check(q.expr, q.legend...); err != nil {
			t.Errorf("%s: %v", q.panel, err)
		}
	}
}

var annotated = regexp.MustCompile(`\$labels\.(\w+)`)

// placeholders are the labels that annotations show.
func placeholders(annotations map[string]string) []string {
	var out []string
	for _, text := range annotations {
		for _, found := range annotated.FindAllStringSubmatch(text, -1) {
			out = append(out, found[1])
		}
	}
	return out
}

// What the check is for is found.
func TestWhatThereIsNotIsFound(t *testing.T) {
	t.Parallel()
	n := names{
		metrics:  parseMetrics("| `a_total` | counter | `outcome`: new, done | x |\n| `d_seconds` | histogram | `method`: Get, Put | x |\n"),
		recorded: map[string]bool{"a:rate": true},
	}
	for expr, want := range map[string]string{
		`sum by (outcome) (rate(a_total{outcome="new",instance="i"}[5m])) / on () a:rate`:   "",
		`histogram_quantile(0.5, sum by (le, method) (rate(d_seconds_bucket{le="1"}[5m])))`: "",
		`up{job="x"} == 0 or go_goroutines > 1 or d_seconds_count{method=~"Get|Put"}`:       "",
		`a_totals`:                       "no metric a_totals",
		`b:rate`:                         "no metric b:rate",
		`a_total{state="new"}`:           "no label state",
		`a_total{outcome="neu"}`:         `never "neu"`,
		`a_total{outcome=~"new|old"}`:    `never "old"`,
		`a_total{outcome=~"n.*"}`:        "list the values",
		`sum by (method) (a_total)`:      "a label method",
		`a_total and on (method) a:rate`: "a label method",
		`d_seconds > 1`:                  "is a histogram",
		`a_total_count`:                  "no metric a_total_count",
		`d_seconds_count{le="1"}`:        "no label le",
		`sum(`:                           "unclosed left parenthesis",
	} {
		err := n.check(expr)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v; want %q", expr, err, want)
		}
	}
	if err := n.check("a_total", "place"); err == nil {
		t.Error("a legend of a label that is not there was let through")
	}
}
