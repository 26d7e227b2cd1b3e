package demo

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// printer writes for a person. It is safe for use by many goroutines; the first error of the writer is kept in err, and
// nothing more is written.
type printer struct {
	mu    sync.Mutex
	w     io.Writer
	color bool
	err   error
}

func newPrinter(w io.Writer, color bool) *printer { return &printer{w: w, color: color} }

// The styles (ECMA-48, SGR).
const (
	bold  = "1"
	dim   = "2"
	red   = "31"
	green = "32"
)

func (p *printer) paint(style, text string) string {
	if !p.color {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

func (p *printer) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

func (p *printer) headline(n, of int, sc scenario) {
	p.say("\n%s\n", p.paint(bold, fmt.Sprintf("%d/%d  %s: %s", n, of, sc.name, sc.title)))
}

func (p *printer) left(n, of int, sc scenario, why string) {
	p.say("\n%s\n", p.paint(dim, fmt.Sprintf("%d/%d  %s: not played: %s", n, of, sc.name, why)))
}

// line is one line of a timeline.
func (p *printer) line(at time.Duration, who, text string) {
	p.say("%7d ms  %-12s  %s\n", at.Milliseconds(), who, text)
}

// verdict tells what came of a scenario, each thing against what is expected.
func (p *printer) verdict(r result) {
	var parts []string
	for _, c := range r.checks {
		text := fmt.Sprintf("%s: %s (expected %s)", c.what, orNone(c.got), c.want)
		if !c.ok() {
			text = p.paint(red, text)
		}
		parts = append(parts, text)
	}
	p.say("  %s  %s\n", p.word(r), strings.Join(parts, " · "))
	if r.err != nil {
		p.say("  %s\n", p.paint(red, "could not be played to its end: "+r.err.Error()))
	}
}

func (p *printer) word(r result) string {
	if r.ok() {
		return p.paint(green, "ok  ")
	}
	return p.paint(red, "FAIL")
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func (p *printer) summary(results []result) {
	failed := 0
	var total time.Duration
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, err := fmt.Fprintln(t, "scenario\tms\tcharges\trows\tkey\tanswers")
	for _, r := range results {
		total += r.took
		if !r.ok() {
			failed++
		}
		key := "-"
		if r.found.key != nil {
			key = *r.found.key
		}
		_, rowErr := fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\n", r.scenario.name, r.took.Milliseconds(),
			number(r.found.charges), number(r.found.rows), key, strings.Join(r.found.answers, " | "))
		err = errors.Join(err, rowErr)
	}
	if err = errors.Join(err, t.Flush()); err != nil {
		p.say("the summary could not be made: %v\n", err)
		return
	}
	// The verdicts go in front when the columns are made: colours have a length that the table would count.
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	p.say("\n      %s\n", p.paint(bold, lines[0]))
	for i, line := range lines[1:] {
		p.say("%s  %s\n", p.word(results[i]), line)
	}
	p.say("\n%d of %d as they must be, in %.1f s.\n", len(results)-failed, len(results), total.Seconds())
}

func number(n *int) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}
