package lab

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"strings"
	"unicode/utf8"
)

// The drawing is our own: gonum/plot and go-analyze/charts write fixed colours into each element, so that one file cannot suit a
// light and a dark page, and give a screen reader no title; the second has no numbers along x either.

// The measures of a drawing, in its own units. It is narrow, so that its text can still be read when it is as wide as a phone.
const (
	svgWidth   = 460
	svgPad     = 12
	charWidth  = 6.9 // of a character, about: nobody knows the reader's fonts
	boldWidth  = 8
	lineHeight = 18
)

// svgStyle gives the series their colours as currentColor: one set for a light page, one for a dark one.
const svgStyle = `<style>
.lab-plot{font:13px system-ui,sans-serif}
.lab-plot .back{fill:#ffffff}.lab-plot .ink{fill:#1f2328}.lab-plot .dim{fill:#59636e}
.lab-plot .head{font-weight:600}.lab-plot .grid{stroke:#d1d9e0}.lab-plot .axis{stroke:#59636e}
.lab-plot .s0{color:#0b62b5}.lab-plot .s1{color:#c2410c}.lab-plot .s2{color:#15803d}.lab-plot .s3{color:#7e22ce}
.lab-plot .s4{color:#be185d}.lab-plot .s5{color:#0e7490}.lab-plot .s6{color:#854d0e}.lab-plot .s7{color:#525252}
@media (prefers-color-scheme:dark){
.lab-plot .back{fill:#161b22}.lab-plot .ink{fill:#e6edf3}.lab-plot .dim{fill:#9da7b1}
.lab-plot .grid{stroke:#30363d}.lab-plot .axis{stroke:#9da7b1}
.lab-plot .s0{color:#58a6ff}.lab-plot .s1{color:#fb923c}.lab-plot .s2{color:#4ade80}.lab-plot .s3{color:#c084fc}
.lab-plot .s4{color:#f472b6}.lab-plot .s5{color:#22d3ee}.lab-plot .s6{color:#eab308}.lab-plot .s7{color:#a3a3a3}
}
</style>
`

// svgColours is how many colours the style has.
const svgColours = 8

// ErrNoPlot: there is nothing to draw.
var ErrNoPlot = errors.New("there is no plot")

// SVG draws plots one below the other, as one document that suits light and dark pages. Nothing to draw is [ErrNoPlot]; a plot
// whose series do not fit together is an error that names it.
func SVG(plots ...Plot) ([]byte, error) {
	if len(plots) == 0 {
		return nil, ErrNoPlot
	}
	var c canvas
	var titles []string
	for _, p := range plots {
		if err := p.check(); err != nil {
			return nil, fmt.Errorf("plot %q: %w", p.Title, err)
		}
		p.draw(&c)
		titles = append(titles, p.Title)
	}
	title := html.EscapeString(strings.Join(titles, "; "))
	var out bytes.Buffer
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" class="lab-plot" role="img" aria-label="%s" viewBox="0 0 %d %.0f" width="%d" height="%.0f">
<title>%s</title>
%s<rect class="back" width="100%%" height="100%%"/>
`, title, svgWidth, c.y, svgWidth, c.y, title, svgStyle)
	out.Write(c.body.Bytes())
	out.WriteString("</svg>\n")
	return out.Bytes(), nil
}

func (p Plot) draw(c *canvas) {
	c.y += svgPad
	for _, line := range strings.Split(wrap(p.Title, (svgWidth-2*svgPad)/boldWidth), "\n") {
		c.y += lineHeight
		c.text(svgPad, c.y-5, "start", "ink head", line)
	}
	p.legend(c)
	if p.Categories != nil {
		p.bars(c)
	} else {
		p.lines(c)
	}
	c.y += svgPad
}

// legend names the series, as many in a line as fit.
func (p Plot) legend(c *canvas) {
	if len(p.Series) == 1 && p.Series[0].label() == "" {
		return
	}
	const swatch, gap = 24, 16
	x := float64(svgPad)
	c.y += lineHeight + 4
	for i, l := range p.looks() {
		label := p.Series[i].label()
		width := swatch + 6 + textWidth(label)
		if x > svgPad && x+width > svgWidth-svgPad {
			x = svgPad
			c.y += lineHeight
		}
		if p.Categories != nil {
			l.bar(c, x, c.y-14, swatch, 10)
		} else {
			l.polyline(c, []point{{x, c.y - 9}, {x + swatch, c.y - 9}})
			l.mark(c, point{x + swatch/2, c.y - 9})
		}
		c.text(x+swatch+6, c.y-5, "start", "ink", label)
		x += width + gap
	}
	c.y += 4
}

// canvas is what is drawn so far, down to y.
type canvas struct {
	body bytes.Buffer
	y    float64
}

func (c *canvas) put(format string, args ...any) { fmt.Fprintf(&c.body, format+"\n", args...) }

// text writes s from x on ("start"), up to it ("end") or about it ("middle"), on a base line.
func (c *canvas) text(x, y float64, anchor, class, s string) {
	c.put(`<text class="%s" x="%.1f" y="%.1f" text-anchor="%s">%s</text>`, class, x, y, anchor, html.EscapeString(s))
}

func (c *canvas) line(class string, from, to point) {
	c.put(`<line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, class, from.x, from.y, to.x, to.y)
}

type point struct{ x, y float64 }

// textWidth is how wide a text is, about.
func textWidth(s string) float64 { return float64(utf8.RuneCountInString(s)) * charWidth }
