package lab

import (
	"fmt"
	"slices"
	"strings"
)

// look is how a series is drawn.
type look struct {
	number   int // decides colour and marker
	document bool
}

// looks gives each series of ours a number, and each of the document's that of ours which it belongs to.
func (p Plot) looks() []look {
	out := make([]look, len(p.Series))
	var ours []string // bare names, by number
	for i, s := range p.Series {
		if !s.Document {
			out[i].number = len(ours)
			ours = append(ours, s.bare())
		}
	}
	for i, s := range p.Series {
		if !s.Document {
			continue
		}
		out[i].document = true
		if n := slices.Index(ours, s.bare()); n >= 0 {
			out[i].number = n
		} else if n := slices.IndexFunc(ours, func(name string) bool { return strings.Contains(name, s.bare()) }); n >= 0 {
			out[i].number = n
		} else if i > 0 {
			out[i].number = out[i-1].number
		}
	}
	return out
}

// bare is a series' name without what says whose it is.
func (s Series) bare() string {
	var words []string
	for _, w := range strings.FieldsFunc(s.Name, func(r rune) bool { return strings.ContainsRune(" ,:()", r) }) {
		if w != "document" && w != "ours" && w != "here" {
			words = append(words, w)
		}
	}
	return strings.Join(words, " ")
}

// label is a series' name in the legend.
func (s Series) label() string {
	if s.Document && !strings.Contains(s.Name, "document") {
		return strings.TrimPrefix(s.Name+", document", ", ")
	}
	return s.Name
}

func (l look) class() string { return fmt.Sprintf("s%d", l.number%svgColours) }

// polyline draws a line: the document's thinner, dashed and paler.
func (l look) polyline(c *canvas, points []point) {
	how := `stroke-width="2"`
	if l.document {
		how = `stroke-width="1.5" stroke-dasharray="5 4" opacity="0.75"`
	}
	var at strings.Builder
	for _, p := range points {
		fmt.Fprintf(&at, "%.1f,%.1f ", p.x, p.y)
	}
	c.put(`<polyline class="%s" fill="none" stroke="currentColor" stroke-linejoin="round" %s points="%s"/>`,
		l.class(), how, strings.TrimSpace(at.String()))
}

// mark draws a point in a shape of the series' own, so that lines can be told apart without colours. The document's is hollow.
func (l look) mark(c *canvas, p point) {
	how := `fill="currentColor"`
	if l.document {
		how = `class="back" stroke="currentColor"`
	}
	const r = 3.5
	shape := fmt.Sprintf(`<circle %s cx="%.1f" cy="%.1f" r="%.1f"/>`, how, p.x, p.y, r)
	switch l.number % 4 {
	case 1:
		shape = polygon(how, p, point{-r, -r}, point{r, -r}, point{r, r}, point{-r, r})
	case 2:
		shape = polygon(how, p, point{0, -r - 1}, point{r + 1, r}, point{-r - 1, r})
	case 3:
		shape = polygon(how, p, point{0, -r - 1}, point{r + 1, 0}, point{0, r + 1}, point{-r - 1, 0})
	}
	c.put(`<g class="%s">%s</g>`, l.class(), shape)
}

func polygon(how string, middle point, corners ...point) string {
	var at strings.Builder
	for _, k := range corners {
		fmt.Fprintf(&at, "%.1f,%.1f ", middle.x+k.x, middle.y+k.y)
	}
	return fmt.Sprintf(`<polygon %s points="%s"/>`, how, strings.TrimSpace(at.String()))
}

// bar draws a bar from its upper left corner: the document's paler, with a dashed edge.
func (l look) bar(c *canvas, x, y, width, height float64) {
	how := `fill="currentColor"`
	if l.document {
		how = `fill="currentColor" fill-opacity="0.25" stroke="currentColor" stroke-dasharray="4 3"`
	}
	c.put(`<rect class="%s" %s x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, l.class(), how, x, y, max(width, 0.5), height)
}
