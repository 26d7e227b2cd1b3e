// Package checkalerts holds the rules, the alerts' tests, the runbook and the dashboards against one another and against the list of
// metrics that there are. It is nothing but tests.
package checkalerts

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// deploy is the folder whose files are checked.
var deploy = filepath.Join("..", "..", "..", "deploy")

// metric is a row of METRICS.md: a name, and the labels with the text that lists their values, "" where the row lists none.
type metric struct {
	name, kind string
	labels     map[string]string
}

var (
	metricRow = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (counter|gauge|histogram)[^|]* \\| ([^|]*) \\|")
	label     = regexp.MustCompile("`([a-z_]+)`")
)

// parseMetrics reads the document's tables. Labels stand in backticks, their values after a colon; an aside in brackets, in which a
// label's meaning is told, is not set apart.
func parseMetrics(document string) map[string]metric {
	all := map[string]metric{}
	for _, row := range metricRow.FindAllStringSubmatch(document, -1) {
		m := metric{row[1], row[2], map[string]string{}}
		for _, part := range strings.Split(row[3], " · ") {
			names := label.FindAllStringSubmatchIndex(part, -1)
			for i, at := range names {
				values := ""
				if i == len(names)-1 {
					_, values, _ = strings.Cut(part[at[1]:], ": ")
				}
				m.labels[part[at[2]:at[3]]] = values
			}
		}
		all[m.name] = m
	}
	return all
}

// has reports whether the metric is described to have a label with that value.
func (m metric) has(name, value string) error {
	values, ok := m.labels[name]
	if !ok {
		return fmt.Errorf("%s has no label %s", m.name, name)
	}
	// A list of single words is a list of values; other texts say where the values come from.
	words := regexp.MustCompile(`[A-Za-z0-9_-]+`).FindAllString(values, -1)
	if values != "" && value != "" && !slices.Contains(words, value) {
		return fmt.Errorf("%s{%s} is never %q", m.name, name, value)
	}
	return nil
}

func documented(t *testing.T) map[string]metric {
	t.Helper()
	all := parseMetrics(read(t, "prometheus", "METRICS.md"))
	if len(all) < 20 {
		t.Fatalf("METRICS.md was read wrong: %d metrics", len(all))
	}
	return all
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{deploy}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// files returns the paths below deploy that match a pattern, one at the least.
func files(t *testing.T, pattern ...string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(append([]string{deploy}, pattern...)...))
	if err != nil || len(found) == 0 {
		t.Fatalf("%v: %v", pattern, err)
	}
	for i, f := range found {
		if found[i], err = filepath.Rel(deploy, f); err != nil {
			t.Fatal(err)
		}
	}
	return found
}

func TestTheDocumentIsRead(t *testing.T) {
	t.Parallel()
	got := parseMetrics("| name | type | labels | meaning |\n|---|---|---|---|\n" +
		"| `a_total` | counter | `x`, `y` · `z`: one, two_three; of late: four | What `q` means. |\n" +
		"| `b` | gauge, **db** | – | Nothing. |\n")
	for _, c := range []struct {
		metric, label, value string
		right                bool
	}{
		{"a_total", "x", "any", true}, {"a_total", "y", "any", true}, {"a_total", "z", "two_three", true}, {"a_total", "z", "four", true},
		{"a_total", "z", "three", false}, {"a_total", "q", "any", false}, {"b", "x", "any", false},
	} {
		if err := got[c.metric].has(c.label, c.value); (err == nil) != c.right {
			t.Errorf("%s{%s=%q}: %v", c.metric, c.label, c.value, err)
		}
	}
}
