package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The committed dashboard is the one that the program writes.
func TestCommittedDashboardIsTheGeneratedOne(t *testing.T) {
	t.Parallel()
	want, err := render()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join("..", file))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("run `make generate`; generated (-), committed (+):\n%s", diff)
	}
}

// Grafana takes any grid and shows an odd one oddly: no panel stands outside, or on another, and none lacks what a reader needs.
func TestPanelsStandBesideOneAnotherAndExplainThemselves(t *testing.T) {
	t.Parallel()
	text, err := render()
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			ID                       int
			Type, Title, Description string
			GridPos                  struct{ X, Y, W, H int }
			FieldConfig              struct{ Defaults struct{ Unit string } }
			Options                  struct{ YAxis struct{ Unit string } }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	taken, ids := map[[2]int]string{}, map[int]bool{}
	for _, p := range board.Panels {
		if ids[p.ID] {
			t.Errorf("%s: a second panel %d", p.Title, p.ID)
		}
		ids[p.ID] = true
		if p.Type != "row" && (p.Description == "" || p.FieldConfig.Defaults.Unit+p.Options.YAxis.Unit == "") {
			t.Errorf("%s: no description or no unit", p.Title)
		}
		if g := p.GridPos; g.X < 0 || g.X+g.W > 24 || g.W < 1 || g.H < 1 {
			t.Errorf("%s: outside the grid: %+v", p.Title, g)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, ok := taken[[2]int{x, y}]; ok {
					t.Fatalf("%q stands on %q at %s", p.Title, other, fmt.Sprint(x, ",", y))
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}
