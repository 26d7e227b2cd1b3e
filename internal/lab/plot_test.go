package lab

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// drawn draws plots, and fails unless that gives well-formed XML.
func drawn(t *testing.T, plots ...Plot) string {
	t.Helper()
	picture, err := SVG(plots...)
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(bytes.NewReader(picture)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return string(picture)
		} else if err != nil {
			t.Fatalf("%v\n%s", err, picture)
		}
	}
}

// texts are what is written in a drawing, in its order.
func texts(picture string) (out []string) {
	for _, m := range regexp.MustCompile(`<text [^>]*>([^<]*)</text>`).FindAllStringSubmatch(picture, -1) {
		out = append(out, m[1])
	}
	return out
}

func TestLinesAreDrawnWhereTheirValuesLie(t *testing.T) {
	t.Parallel()
	p := drawn(t, Plot{Title: "Calls", X: "seconds", Y: "calls", Series: []Series{
		{Name: "direct", X: []float64{0, 5, 10}, Y: []float64{0, 50, 100}},
		{Name: "ours", X: []float64{0, 10}, Y: []float64{20, 20}},
		{Name: "direct", X: []float64{0, 10}, Y: []float64{40, 60}, Document: true},
	}})
	want := []string{"Calls", "direct", "ours", "direct, document", "calls", "0", "20", "40", "60", "80", "100", "0", "5", "10", "seconds"}
	if diff := cmp.Diff(want, texts(p)); diff != "" {
		t.Error(diff)
	}
	// The area is 230 high, from 82 to 312, and 40.7 is right of "100".
	var lines []string
	for _, m := range regexp.MustCompile(`<polyline class="(s\d)" .*(dasharray)?.* points="([^"]*)"`).FindAllStringSubmatch(p, -1) {
		lines = append(lines, m[1]+" "+m[3])
	}
	want = []string{
		"s0 40.7,312.0 238.4,197.0 436.0,82.0", "s1 40.7,266.0 436.0,266.0", "s0 40.7,220.0 436.0,174.0",
	}
	if diff := cmp.Diff(want, lines[3:]); diff != "" { // three are the legend's
		t.Error(diff)
	}
	if n := strings.Count(p, "stroke-dasharray"); n != 2 {
		t.Errorf("%d dashed lines: want the document's, and its name in the legend", n)
	}
}

func TestBarsAreAsLongAsTheirValues(t *testing.T) {
	t.Parallel()
	p := drawn(t, Plot{Title: "Requests", Y: "requests", Categories: []string{"at once", "full jitter"}, Series: []Series{
		{Name: "here", Y: []float64{5000, 2500}}, {Name: "document", Y: []float64{4000, math.NaN()}, Document: true},
	}})
	want := []string{"Requests", "here", "document", "at once", "5,000", "4,000", "full jitter", "2,500", "requests"}
	if diff := cmp.Diff(want, texts(p)); diff != "" {
		t.Error(diff)
	}
	var widths []string
	for _, m := range regexp.MustCompile(`<rect class="s0" .* width="([^"]*)" height="13.0"`).FindAllStringSubmatch(p, -1) {
		widths = append(widths, m[1])
	}
	if diff := cmp.Diff([]string{"309.6", "247.7", "154.8"}, widths); diff != "" {
		t.Error(diff)
	}
}

func TestBarsOnALogarithmicAxisCanAllBeSeen(t *testing.T) {
	t.Parallel()
	p := drawn(t, Plot{Title: "Charges", Y: "charges", LogY: true, Categories: []string{"a", "b", "c"}, Series: []Series{{Y: []float64{10, 1, 0}}}})
	if bars := strings.Count(p, `<rect class="s0"`); bars != 2 || strings.Contains(p, `width="0.5"`) {
		t.Errorf("%d bars: want 2 that can be seen\n%s", bars, p)
	}
	if diff := cmp.Diff([]string{"Charges", "a", "10", "b", "1", "c", "0", "charges (logarithmic)"}, texts(p)); diff != "" {
		t.Error(diff)
	}
}

func TestLineEndsWhereAValueIsMissing(t *testing.T) {
	t.Parallel()
	p := drawn(t, Plot{Title: "Gap", Series: []Series{{
		X: []float64{0, 1, 2, 3, 4, math.Inf(1), 6}, Y: []float64{1, 1, math.NaN(), 1, 1, 1, 1},
	}}})
	if lines, marks := strings.Count(p, "<polyline"), strings.Count(p, "<circle"); lines != 2 || marks != 5 {
		t.Errorf("%d lines and %d marks: want 2 and 5", lines, marks)
	}
	p = drawn(t, Plot{Title: "Zero", LogY: true, Series: []Series{{X: []float64{0, 1, 2}, Y: []float64{1, 0, 10}}}})
	if lines, marks := strings.Count(p, "<polyline"), strings.Count(p, "<circle"); lines != 0 || marks != 2 {
		t.Errorf("zero on a logarithmic axis: %d lines and %d marks: want 0 and 2", lines, marks)
	}
}

func TestLineOfManyPointsIsDrawnWithAsManyAsCanBeSeen(t *testing.T) {
	t.Parallel()
	const n = 100_000
	s := Series{Name: "many", X: make([]float64, n), Y: make([]float64, n)}
	for i := range n {
		s.X[i], s.Y[i] = float64(i), math.Sin(float64(i)/n*20)
	}
	p := drawn(t, Plot{Title: "Many", Series: []Series{s}})
	if marks := strings.Count(p, "<circle"); len(p) > 60_000 || marks > 10 {
		t.Errorf("%d bytes and %d marks", len(p), marks)
	}
}

func TestDrawingCanBeReadWithoutSeeingIt(t *testing.T) {
	t.Parallel()
	p := drawn(t, Plot{Title: `Fast & <slow>`, X: `"x"`, Series: []Series{{Name: "<a>", X: []float64{1}, Y: []float64{1}}}},
		Plot{Title: "Second", Categories: []string{"<b>"}, Series: []Series{{Y: []float64{1}}}})
	for _, want := range []string{
		`role="img" aria-label="Fast &amp; &lt;slow&gt;; Second" viewBox="0 0 460 `, "<title>Fast &amp; &lt;slow&gt;; Second</title>",
		"&#34;x&#34;", "&lt;a&gt;", "&lt;b&gt;", "prefers-color-scheme:dark",
	} {
		if !strings.Contains(p, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if n := strings.Count(p, "<svg"); n != 1 {
		t.Errorf("%d documents in one file", n)
	}
}

func TestPlotThatCannotBeDrawnIsAnError(t *testing.T) {
	t.Parallel()
	one := []float64{1}
	tests := map[string]struct {
		plot Plot
		says string
	}{
		"x without y":           {Plot{Series: []Series{{X: one}}}, "1 x and 0 y"},
		"a bar too few":         {Plot{Categories: []string{"a", "b"}, Series: []Series{{Y: one}}}, "1 values and 0 x for 2 categories"},
		"bars over x":           {Plot{Categories: []string{"a"}, Series: []Series{{X: one, Y: one}}}, "1 values and 1 x for 1 categories"},
		"no categories":         {Plot{Categories: []string{}}, "without categories"},
		"a bar below nothing":   {Plot{Categories: []string{"a"}, Series: []Series{{Y: []float64{-1}}}}, "a bar of -1"},
		"the logarithm of zero": {Plot{LogY: true, Series: []Series{{X: one, Y: []float64{0}}}}, "no value"},
		"no series":             {Plot{}, "no value"},
		"no number":             {Plot{Series: []Series{{X: one, Y: []float64{math.NaN()}}}}, "no value"},
	}
	for name, tt := range tests {
		if _, err := SVG(tt.plot); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		}
	}
	if _, err := SVG(); !errors.Is(err, ErrNoPlot) {
		t.Errorf("no plot: %v", err)
	}
}

func TestAxesNameRoundValues(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		scale scale
		want  string
	}{
		"from 0 up":           {yScale([]float64{3, 47}, false), "0 10 20 30 40 50"},
		"thousands":           {yScale([]float64{4419}, false), "0 1,000 2,000 3,000 4,000 5,000"},
		"parts of one":        {yScale([]float64{0.13}, false), "0.00 0.05 0.10 0.15"},
		"below zero":          {yScale([]float64{-3, 4}, false), "-4 -2 0 2 4"},
		"all nothing":         {yScale([]float64{0, 0}, false), "0.0 0.2 0.4 0.6 0.8 1.0"},
		"decades":             {yScale([]float64{2, 3000}, true), "1 10 100 1,000 10,000"},
		"within decades":      {yScale([]float64{9, 265}, true), "5 10 20 50 100 200 500"},
		"many decades":        {yScale([]float64{2e-12, 1}, true), "1e-12 1e-10 1e-08 1e-06 0.0001 0.01 1"},
		"one value":           {yScale([]float64{1}, true), "1 2"},
		"few values of x":     {xScale([]float64{10, 60, 30, 10}), "10 30 60"},
		"few values of x, .5": {xScale([]float64{0.5, 1}), "0.5 1.0"},
		"many values of x":    {xScale([]float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9.5}), "0 2 4 6 8"},
		"nearly from 0":       {xScale([]float64{0.4, 1, 2, 3, 4, 5, 6, 7, 8, 10}), "0 2 4 6 8 10"},
		"one x":               {xScale([]float64{3}), "3"},
	}
	for name, tt := range tests {
		var got []string
		for _, tick := range tt.scale.ticks {
			got = append(got, tt.scale.label(tick))
		}
		if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestFiguresOfBarsHaveThreeDigits(t *testing.T) {
	t.Parallel()
	tests := map[float64]string{0: "0", 0.12345: "0.123", 3: "3", 98.76: "98.8", 999.4: "999", 1234.5: "1,234", 43_200: "43,200",
		2_592_000: "2.59 M", 4e9: "4 G", 1e-7: "1e-07"}
	for v, want := range tests {
		if got := figures(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}

func TestDocumentsLineHasTheColourOfOurs(t *testing.T) {
	t.Parallel()
	p := Plot{Series: []Series{
		{Name: "document, SWIM", Document: true}, {Name: "heartbeats to all, here"}, {Name: "SWIM + suspicion"}, {Name: "SWIM"},
		{Name: "heartbeats (document)", Document: true}, {Name: "gossip", Document: true},
	}}
	var got []int
	for _, l := range p.looks() {
		got = append(got, l.number)
	}
	if diff := cmp.Diff([]int{2, 0, 1, 2, 0, 0}, got); diff != "" {
		t.Error(diff)
	}
}
