package lab

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Page is a report of experiments as one HTML document that needs nothing else: no script, no other file, no network.
type Page struct {
	Results []Result
	// Options are those that the results were made with.
	Options Options
	Began   time.Time
	Took    time.Duration
	// CodeURL, if set, is what the page puts before the path of a file of this repository, to link to it.
	CodeURL string
}

//go:embed page.gohtml
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// HTML renders the page. A plot that cannot be drawn is named in its place, so that the figures are not lost with it.
func (p Page) HTML() ([]byte, error) {
	view := pageView{
		Began:   p.Began.Format("2 January 2006, 15:04 MST"),
		Took:    p.Took.Round(time.Second).String(),
		Machine: fmt.Sprintf("%s/%s, %d CPUs, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version()),
		Seed:    p.Options.Seed,
		Small:   p.Options.Small,
	}
	for _, r := range p.Results {
		view.Sections = append(view.Sections, p.section(r))
	}
	var out bytes.Buffer
	if err := pageTemplate.Execute(&out, view); err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	return out.Bytes(), nil
}

// pageView is what the template shows.
type pageView struct {
	Began, Took, Machine string
	Seed                 uint64
	Small                bool
	Sections             []pageSection
}

type pageSection struct {
	Name, Title, Took, Command string
	Verdict                    string
	Good                       bool
	Err                        error
	Shows                      []string // paragraphs
	Tables                     []pageTable
	Plots                      []template.HTML
	Undrawn                    []error
	Notes                      []string
	Checks                     []pageCheck
	Code                       []pageLink
}

type pageTable struct {
	ID, Title string
	Columns   []pageCell // nil: they have no names
	Rows      []pageRow
}

type pageRow struct {
	Document bool // all of it is the document's
	Cells    []pageCell
}

type pageCell struct {
	Text                   string
	Number, Document, Long bool
}

// Class is what the style sheet calls it.
func (c pageCell) Class() string {
	var names []string
	if c.Number {
		names = append(names, "number")
	}
	if c.Document {
		names = append(names, "document")
	}
	if c.Long {
		names = append(names, "long")
	}
	return strings.Join(names, " ")
}

type pageCheck struct {
	Word string
	Check
}

type pageLink struct{ Path, URL string }

func (p Page) section(r Result) pageSection {
	e := r.Experiment
	s := pageSection{
		Name: e.Name, Title: e.Title, Took: seconds(r.Took), Command: fmt.Sprintf("lab run %s --seed %d", e.Name, p.Options.Seed),
		Err: r.Err, Shows: strings.Split(strings.TrimSpace(e.Shows), "\n\n"), Notes: r.Report.Notes,
	}
	if p.Options.Small {
		s.Command += " --small"
	}
	for i, t := range r.Report.Tables {
		table := newPageTable(t)
		table.ID = fmt.Sprintf("%s-%d", e.Name, i+1)
		s.Tables = append(s.Tables, table)
	}
	for _, plot := range r.Report.Plots {
		picture, err := SVG(plot)
		if err != nil {
			s.Undrawn = append(s.Undrawn, err)
			continue
		}
		s.Plots = append(s.Plots, template.HTML(picture)) // its texts are escaped where it is drawn
	}
	for _, c := range r.Report.Checks {
		s.Checks = append(s.Checks, pageCheck{word(c, p.Options), c})
	}
	for _, path := range e.Code {
		link := pageLink{Path: path}
		if p.CodeURL != "" {
			link.URL = strings.TrimSuffix(p.CodeURL, "/") + "/" + path
		}
		s.Code = append(s.Code, link)
	}
	missed := len(r.Report.Missed(p.Options.Timed))
	s.Good = r.Err == nil && missed == 0
	switch {
	case r.Err != nil:
		s.Verdict = "could not be made"
	case missed > 0:
		s.Verdict = fmt.Sprintf("%d of %d missed", missed, len(s.Checks))
	default:
		s.Verdict = "holds"
	}
	return s
}

// longCell is from how many characters on a cell may be broken into lines.
const longCell = 32

// newPageTable finds out what is the document's: a row with a cell that says so, or a column whose name does, with those without a
// name that follow it.
func newPageTable(t Table) pageTable {
	out := pageTable{Title: t.Title}
	columns := make([]pageCell, len(t.Columns))
	for i, name := range t.Columns {
		columns[i] = pageCell{Text: name, Document: strings.Contains(name, "document") || i > 0 && name == "" && columns[i-1].Document,
			Number: i > 0 && !slices.ContainsFunc(t.Rows, func(row []string) bool { return row[i] != "" && !isFigure(row[i]) })}
	}
	if strings.Join(t.Columns, "") != "" {
		out.Columns = columns
	}
	for _, row := range t.Rows {
		r := pageRow{Document: slices.Contains(row, "document")}
		for i, text := range row {
			cell := columns[i]
			cell.Text, cell.Long = text, utf8.RuneCountInString(text) >= longCell
			r.Cells = append(r.Cells, cell)
		}
		out.Rows = append(out.Rows, r)
	}
	return out
}

// isFigure reports whether a cell is a number with at most a unit.
func isFigure(cell string) bool {
	bare := strings.TrimLeft(cell, "≤≥<>≈+-− ")
	return strings.IndexFunc(bare, unicode.IsDigit) == 0 && len(strings.Fields(bare)) <= 2
}
