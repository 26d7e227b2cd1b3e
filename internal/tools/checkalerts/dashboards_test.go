package checkalerts

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

// dashboardQuery is an expression of a panel, and the labels that its legend shows.
type dashboardQuery struct {
	panel, expr string
	legend      []string
}

// variables stand for the values that Grafana puts into expressions. One that is not here leaves an expression that does not parse.
var variables = strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h", `=~"$instance"`, `=~".*"`)

var legendLabel = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)

func dashboardQueries(t *testing.T) []dashboardQuery {
	t.Helper()
	var all []dashboardQuery
	for _, path := range files(t, "grafana", "dashboards", "*.json") {
		var board struct {
			Panels []struct {
				Title   string
				Targets []struct{ Expr, LegendFormat string }
			}
			Annotations struct {
				List []struct{ Name, Expr, TitleFormat string }
			}
		}
		if err := json.Unmarshal([]byte(read(t, path)), &board); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, p := range board.Panels {
			for _, target := range p.Targets {
				all = append(all, dashboardQuery{p.Title, variables.Replace(target.Expr), legendLabels(target.LegendFormat)})
			}
		}
		for _, a := range board.Annotations.List {
			all = append(all, dashboardQuery{a.Name, variables.Replace(a.Expr), legendLabels(a.TitleFormat)})
		}
	}
	if len(all) < 30 {
		t.Fatalf("the dashboards were read wrong: %d queries", len(all))
	}
	return all
}

func legendLabels(legend string) []string {
	var out []string
	for _, found := range legendLabel.FindAllStringSubmatch(legend, -1) {
		out = append(out, found[1])
	}
	return out
}
