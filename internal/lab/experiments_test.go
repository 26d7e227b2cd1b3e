package lab

import (
	"bytes"
	"testing"
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
