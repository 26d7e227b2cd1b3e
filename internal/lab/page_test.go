package lab

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"
)

// page renders results.
func page(t *testing.T, p Page) string {
	t.Helper()
	p.Began = time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)
	text, err := p.HTML()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestPageHasEveryExperimentOfTheDocuments(t *testing.T) {
	t.Parallel()
	var results []Result
	for _, e := range Documents() {
		results = append(results, Result{Experiment: e, Report: Report{
			Plots: []Plot{{Title: e.Title, Categories: []string{"a"}, Series: []Series{{Y: []float64{1}}}}},
		}})
	}
	got := page(t, Page{Results: results})
	for _, e := range Documents() {
		for _, want := range []string{`<a href="#` + e.Name + `">`, `<section id="` + e.Name + `" `, `<code class="command">lab run ` + e.Name + " --seed 0</code>"} {
			if n := strings.Count(got, want); n != 1 {
				t.Errorf("%q is there %d times", want, n)
			}
		}
		for _, path := range e.Code {
			if !strings.Contains(got, "<code>"+path+"</code>") {
				t.Errorf("%s: %s is missing", e.Name, path)
			}
		}
	}
	if n := strings.Count(got, "<svg "); n != len(results) {
		t.Errorf("%d plots of %d", n, len(results))
	}
}

func TestPageNeedsNothingElse(t *testing.T) {
	t.Parallel()
	got := page(t, Page{Results: []Result{{Experiment: Experiment{Name: "one", Code: []string{"internal/psp/breaker.go"}}}}})
	for _, want := range []string{`<meta name="viewport" content="width=device-width, initial-scale=1">`, "prefers-color-scheme:dark", `lang="en"`} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing", want)
		}
	}
	for _, no := range []string{"<script", "javascript:", "<link", " src=", "@import", "url(", `href="http`, `href="/`, `href=".`, " onclick"} {
		if strings.Contains(got, no) {
			t.Errorf("it has %q", no)
		}
	}
}

func TestPageLinksToCodeOnlyWhereItCanBeRead(t *testing.T) {
	t.Parallel()
	results := []Result{{Experiment: Experiment{Name: "one", Code: []string{"internal/psp/breaker.go"}}}}
	const link = `<a href="https://git.example/main/internal/psp/breaker.go"><code>internal/psp/breaker.go</code></a>`
	for _, at := range []string{"https://git.example/main", "https://git.example/main/"} {
		if got := page(t, Page{Results: results, CodeURL: at}); !strings.Contains(got, link) {
			t.Errorf("%s: no %s", at, link)
		}
	}
	if got := page(t, Page{Results: results, CodeURL: "javascript:alert(1)//"}); strings.Contains(got, "javascript:") {
		t.Error("it links to a script")
	}
}

func TestPageTellsWhatHeldAndWhatDidNot(t *testing.T) {
	t.Parallel()
	var good, bad Report
	good.equal("calls", 4, 4)
	timedAtMost(&good, "time", time.Second, 2*time.Second)
	bad.atMost("calls", 4, 5)
	bad.equal("rows", 1, 1)
	got := page(t, Page{Options: Options{Seed: 7, Small: true}, Took: 3 * time.Second, Results: []Result{
		{Experiment: Experiment{Name: "good"}, Report: good},
		{Experiment: Experiment{Name: "bad"}, Report: bad},
		{Experiment: Experiment{Name: "broken"}, Err: errors.New("no <MySQL>")},
	}})
	for _, want := range []string{
		`good</a></th><td class="good">holds</td>`, `bad</a></th><td class="bad long">1 of 2 missed</td>`,
		`broken</a></th><td class="bad long">could not be made</td>`, "Could not be made: no &lt;MySQL&gt;",
		`<span class="good">ok</span> calls: 4 <span class="dim">(want 4)</span>`,
		`<span class="dim">not held</span> time: 2000 ms <span class="dim">(want ≤ 1000 ms)</span>`,
		`<span class="bad">MISS</span> calls: 5 <span class="dim">(want ≤ 4)</span>`,
		"2 January 2026, 03:04 UTC, ", "Seed 7. Small:", "in 3s, on ", "<details>", "<details open>", "lab run good --seed 7 --small<",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing", want)
		}
	}
}

func TestPageEscapesAndTellsTheDocumentsFiguresApart(t *testing.T) {
	t.Parallel()
	got := page(t, Page{Results: []Result{{
		Experiment: Experiment{Name: "one", Title: "a <b>", Shows: "First & foremost.\n\nSecond."},
		Report: Report{Notes: []string{"<i>"}, Tables: []Table{
			{Title: "T <1>", Columns: []string{"way", "", "calls", "document, φ 8"}, Rows: [][]string{
				{"direct", "document", "3,046–3,074", "4.5 s"}, {"<u>", "here", "3,060", "≈ 4.49 s"}, {"", "", "", ""},
			}},
			{Columns: []string{"", ""}, Rows: [][]string{{"state", "open"}}},
			{Columns: []string{"", "document", "", "here"}, Rows: [][]string{{"a cell that needs two lines on a phone", "b", "c", "d"}}},
		}},
	}}})
	for _, want := range []string{
		"a &lt;b&gt;</h2>\n<p>First &amp; foremost.</p>\n<p>Second.</p>\n", "<li>&lt;i&gt;</li>", `<h3 id="one-1">T &lt;1&gt;</h3>`, `<div class="scroll" tabindex="0" role="region" aria-labelledby="one-1">`,
		`<thead><tr><th scope="col">way</th><th scope="col"></th><th scope="col" class="number">calls</th>` +
			`<th scope="col" class="number document">document, φ 8</th></tr></thead>`,
		`<tr class="document"><th scope="row">direct</th><td>document</td><td class="number">3,046–3,074</td><td class="number document">4.5 s</td></tr>`,
		`<tr><th scope="row">&lt;u&gt;</th><td>here</td><td class="number">3,060</td><td class="number document">≈ 4.49 s</td></tr>`,
		"<table>\n<tbody>\n<tr><th scope=\"row\">state</th><td>open</td></tr>",
		`<tr><th scope="row" class="long">a cell that needs two lines on a phone</th><td class="document">b</td><td class="document">c</td><td>d</td></tr>`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing", want)
		}
	}
	ids := regexp.MustCompile(` id="([^"]*)"`).FindAllString(got, -1)
	for i, id := range ids {
		if strings.Count(got, id) != 1 {
			t.Errorf("id %d: %s is there twice", i, id)
		}
	}
}

func TestPageKeepsItsFiguresWhenAPlotCannotBeDrawn(t *testing.T) {
	t.Parallel()
	got := page(t, Page{Results: []Result{{Experiment: Experiment{Name: "one"}, Report: Report{
		Plots: []Plot{{Title: "empty"}}, Tables: []Table{{Columns: []string{"a", "b"}, Rows: [][]string{{"calls", "4"}}}},
	}}}})
	for _, want := range []string{"Could not be drawn: plot &#34;empty&#34;: no value", `<td class="number">4</td>`} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing", want)
		}
	}
}
