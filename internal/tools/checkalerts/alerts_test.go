package checkalerts

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// rule is a recording or an alerting rule; promtool checks the rest of it.
type rule struct {
	Record, Alert, Expr string
	Labels, Annotations map[string]string
}

func rules(t *testing.T) []rule {
	t.Helper()
	var all []rule
	for _, path := range files(t, "prometheus", "rules", "*.yml") {
		var file struct {
			Groups []struct{ Rules []rule }
		}
		if err := yaml.Unmarshal([]byte(read(t, path)), &file); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, g := range file.Groups {
			all = append(all, g.Rules...)
		}
	}
	return all
}

func alerts(t *testing.T) map[string]rule {
	t.Helper()
	all := map[string]rule{}
	for _, r := range rules(t) {
		if _, twice := all[r.Alert]; twice && r.Alert != "" {
			t.Errorf("%s: two alerts have this name", r.Alert)
		}
		all[r.Alert] = r
	}
	delete(all, "") // what is recorded
	return all
}

// An alert says how urgent it is, what is wrong, and where it is written what to do.
func TestAlertsSayWhatTheyMean(t *testing.T) {
	t.Parallel()
	for name, r := range alerts(t) {
		if s := r.Labels["severity"]; s != "page" && s != "ticket" {
			t.Errorf("%s: severity %q", name, s)
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s: no summary or no description", name)
		}
		if got, want := r.Annotations["runbook_url"], "deploy/runbook.md#"+strings.ToLower(name); got != want {
			t.Errorf("%s: runbook_url %q, want %q", name, got, want)
		}
	}
}

// expectation is what a test of promtool's expects of one alert at one time.
type expectation struct {
	Name   string           `json:"alertname"`
	Alerts []map[string]any `json:"exp_alerts"`
}

func expectations(t *testing.T) []expectation {
	t.Helper()
	var all []expectation
	for _, path := range files(t, "prometheus", "tests", "*.yml") {
		var file struct {
			Tests []struct {
				Alerts []expectation `json:"alert_rule_test"`
			}
		}
		if err := yaml.Unmarshal([]byte(read(t, path)), &file); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, group := range file.Tests {
			all = append(all, group.Alerts...)
		}
	}
	return all
}

// Every alert fires in a test, and keeps quiet in another. That they do is for promtool to say (make verify).
func TestEveryAlertIsTestedBothWays(t *testing.T) {
	t.Parallel()
	fires, quiet := map[string]bool{}, map[string]bool{}
	known := alerts(t)
	for _, e := range expectations(t) {
		if _, ok := known[e.Name]; !ok {
			t.Errorf("a test expects an alert %s, which there is not", e.Name)
		}
		if len(e.Alerts) > 0 {
			fires[e.Name] = true
		} else {
			quiet[e.Name] = true
		}
	}
	for name := range known {
		if !fires[name] || !quiet[name] {
			t.Errorf("%s: fires in a test: %t; keeps quiet in one: %t", name, fires[name], quiet[name])
		}
	}
}

var heading = regexp.MustCompile(`(?m)^### (\w+)\n`)

// aspects are what an entry tells, each as a paragraph of its own.
var aspects = []string{"**Means.**", "**Look.**", "**Do.**", "**Don't.**", "**Escalate.**"}

// entryFaults tells what a runbook lacks, or has too much of, for a set of alerts.
func entryFaults(runbook string, names []string) []string {
	var faults []string
	found := map[string]bool{}
	at := heading.FindAllStringSubmatchIndex(runbook, -1)
	for i, h := range at {
		name, end := runbook[h[2]:h[3]], len(runbook)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		if found[name] || !slices.Contains(names, name) {
			faults = append(faults, fmt.Sprintf("an entry %s, which no alert has, or a second one", name))
		}
		found[name] = true
		for _, a := range aspects {
			if !strings.Contains(runbook[h[1]:end], a) {
				faults = append(faults, fmt.Sprintf("%s: no %s", name, a))
			}
		}
	}
	for _, name := range names {
		if !found[name] {
			faults = append(faults, name+" has no entry")
		}
	}
	return faults
}

// Every alert has its entry in the runbook, and every entry its alert.
func TestEveryAlertHasItsEntry(t *testing.T) {
	t.Parallel()
	for _, f := range entryFaults(read(t, "runbook.md"), slices.Sorted(maps.Keys(alerts(t)))) {
		t.Error(f)
	}
}

func TestFaultsOfTheRunbookAreFound(t *testing.T) {
	t.Parallel()
	whole := "\n" + strings.Join(aspects, " x\n") + "\n"
	for runbook, want := range map[string]int{
		"### A\n" + whole + "### B\n" + whole:                     0,
		"### A\n" + whole:                                         1, // B is missing
		"### A\n" + whole + "### B\n" + whole + "### C\n" + whole: 1, // C is no alert
		"### A\n" + whole + "### B\nNothing.\n":                   len(aspects),
	} {
		if got := entryFaults(runbook, []string{"A", "B"}); len(got) != want {
			t.Errorf("%q: %v; want %d", runbook, got, want)
		}
	}
}

// The runbook's own queries name what there is as well.
func TestTheRunbooksQueriesNameWhatThereIs(t *testing.T) {
	t.Parallel()
	n := names{metrics: documented(t), recorded: map[string]bool{}}
	for _, r := range rules(t) {
		n.recorded[r.Record] = true
	}
	blocks := regexp.MustCompile("(?s)```promql\n(.*?)```").FindAllStringSubmatch(read(t, "runbook.md"), -1)
	if len(blocks) == 0 {
		t.Fatal("the runbook has no query")
	}
	for _, b := range blocks {
		for _, line := range strings.Split(strings.TrimSpace(b[1]), "\n") {
			if err := n.check(line); err != nil {
				t.Error(err)
			}
		}
	}
}
