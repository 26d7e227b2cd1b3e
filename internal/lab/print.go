package lab

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// printer writes reports for a terminal. The first error of the writer is kept in err, and nothing more is written.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) say(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

// lineWidth is where paragraphs are broken.
const lineWidth = 100

func (p *printer) headline(e Experiment) {
	p.say("\n%s: %s\n%s\n\n", e.Name, e.Title, wrap(e.Shows, lineWidth))
}

func (p *printer) report(r Report, o Options) {
	for _, t := range r.Tables {
		p.table(t)
	}
	for _, n := range r.Notes {
		p.say("%s\n", n)
	}
	if len(r.Notes) > 0 {
		p.say("\n")
	}
	for _, c := range r.Checks {
		p.say("  %-4s  %s\n", word(c, o), c)
	}
}

// word is the verdict on a check, where a bound on time may bind nothing.
func word(c Check, o Options) string {
	switch {
	case c.OK:
		return "ok"
	case c.Timed && !o.Timed:
		return "--"
	}
	return "MISS"
}

// table writes columns as wide as their widest cell, under their names if they have any.
func (p *printer) table(t Table) {
	if t.Title != "" {
		p.say("%s\n", t.Title)
	}
	rows := t.Rows
	if strings.Join(t.Columns, "") != "" {
		rows = append([][]string{t.Columns}, rows...)
	}
	widths := make([]int, len(t.Columns))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString("  " + cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)))
		}
		p.say("%s\n", strings.TrimRight(line.String(), " "))
	}
	p.say("\n")
}

// wrap breaks a paragraph into lines of at most width characters, between words.
func wrap(text string, width int) string {
	var out strings.Builder
	used := 0
	for _, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case used == 0:
		case used+1+n > width:
			out.WriteByte('\n')
			used = 0
		default:
			out.WriteByte(' ')
			used++
		}
		out.WriteString(word)
		used += n
	}
	return out.String()
}
