package lab

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestExperimentsKeepTheirBounds makes every experiment at its small size. Only what does not depend on time is demanded: counts,
// and what comes before what.
func TestExperimentsKeepTheirBounds(t *testing.T) {
	t.Parallel()
	for _, e := range All() {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			o := Options{Small: true, Seed: 1}
			r, err := runOne(t.Context(), e, testEnv, o)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			p := &printer{w: &out}
			p.report(r, o)
			t.Logf("%s", out.Bytes())
			for _, c := range r.Missed(false) {
				t.Error(c)
			}
			for _, plot := range r.Plots {
				drawn(t, plot)
			}
			held := 0
			for _, c := range r.Checks {
				if !c.Timed {
					held++
				}
			}
			if held == 0 || len(r.Tables) == 0 {
				t.Errorf("%d checks that do not depend on time and %d tables: want some of both", held, len(r.Tables))
			}
		})
	}
}

func TestExperimentsOfTheDocumentsInTheirOrder(t *testing.T) {
	t.Parallel()
	var got []string
	for _, e := range Documents() {
		got = append(got, e.Name)
	}
	want := []string{"unknown-result", "double-click", "stale-holder", "retry-storm", "waves", "amplification", "breaker", "fallback",
		"bulkhead", "consumer", "deadline", "phi", "membership", "slo"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestEveryExperimentSaysWhatItExplains(t *testing.T) {
	t.Parallel()
	for _, e := range All() {
		if e.Title == "" || e.Shows == "" || e.Bound <= 0 || !e.Ours && len(e.Code) == 0 {
			t.Errorf("%s: its title is %q, it has %d files of code and a bound of %s, and shows: %s", e.Name, e.Title, len(e.Code), e.Bound, e.Shows)
		}
		for _, path := range e.Code {
			if _, err := os.Stat(filepath.Join("..", "..", path)); err != nil {
				t.Errorf("%s: %v", e.Name, err)
			}
		}
	}
}
