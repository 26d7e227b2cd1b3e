package bench

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"slices"
)

// The plot's measures, in pixels.
const (
	panelWidth, panelHeight           = 760, 340
	marginLeft, marginRight           = 70, 190
	marginTop, marginBottom           = 44, 46
	plotWidth, plotHeight             = panelWidth - marginLeft - marginRight, panelHeight - marginTop - marginBottom
	labelHeight                       = 15
	plotFont                          = "font-family=\"system-ui, sans-serif\" font-size=\"12\""
	grid, ink                         = "#d9d9d9", "#333333"
	ceilingColour, grpcCol, restColor = "#767676", "#0b62b5", "#c2410c"
)

// Plot draws the throughput over the number in flight as an SVG, a panel for each condition and a line for each form; those
// that coalesce are solid.
func Plot(r Report) []byte {
	var conditions []Condition
	for _, got := range r.Results {
		if !slices.Contains(conditions, got.condition()) {
			conditions = append(conditions, got.condition())
		}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" %s fill="%s">`+"\n"+`<rect width="100%%" height="100%%" fill="#ffffff"/>`+"\n",
		panelWidth, panelHeight*max(1, len(conditions)), plotFont, ink)
	for i, c := range conditions {
		fmt.Fprintf(&b, `<g transform="translate(%d %d)">`+"\n", marginLeft, i*panelHeight+marginTop)
		newPanel(r, c).draw(&b)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// panel is one condition's throughput.
type panel struct {
	condition Condition
	inFlight  []int
	lines     []line
	most      float64 // the end of the scale
}

type line struct {
	form   Form
	values []float64 // by place in inFlight; NaN is none
}

func newPanel(r Report, c Condition) panel {
	p := panel{condition: c}
	for _, got := range r.Results {
		if got.condition() == c && !slices.Contains(p.inFlight, got.InFlight) {
			p.inFlight = append(p.inFlight, got.InFlight)
		}
	}
	slices.Sort(p.inFlight)
	for _, got := range r.Results {
		if got.condition() != c {
			continue
		}
		i := slices.IndexFunc(p.lines, func(l line) bool { return l.form == got.form() })
		if i < 0 {
			i = len(p.lines)
			p.lines = append(p.lines, line{form: got.form(), values: slices.Repeat([]float64{math.NaN()}, len(p.inFlight))})
		}
		p.lines[i].values[slices.Index(p.inFlight, got.InFlight)] = got.Closed.PerSecond
		p.most = max(p.most, got.Closed.PerSecond)
	}
	return p
}

// x is where a number in flight stands: each as far from the next one, for they grow by factors.
func (p panel) x(i int) float64 {
	return plotWidth * float64(i) / float64(max(1, len(p.inFlight)-1))
}

func (p panel) y(value float64) float64 { return plotHeight * (1 - value/p.top()) }

// top is a round number that no value is above.
func (p panel) top() float64 { return max(1, math.Ceil(p.most/p.tickStep())) * p.tickStep() }

// tickStep is 1, 2 or 5 times a power of ten, so that there are about five lines.
func (p panel) tickStep() float64 {
	rough := max(1, p.most/5)
	power := math.Pow(10, math.Floor(math.Log10(rough)))
	for _, f := range []float64{1, 2, 5} {
		if rough <= f*power {
			return f * power
		}
	}
	return 10 * power
}

func (p panel) draw(b *bytes.Buffer) {
	text := func(x, y float64, anchor, colour, s string) {
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s">%s</text>`+"\n", x, y, anchor, colour, html.EscapeString(s))
	}
	text(0, -18, "start", ink, "Payments per second: "+p.condition.String())
	for tick := 0.0; tick <= p.top(); tick += p.tickStep() {
		fmt.Fprintf(b, `<line x1="0" y1="%.1f" x2="%d" y2="%.1f" stroke="%s"/>`+"\n", p.y(tick), plotWidth, p.y(tick), grid)
		text(-8, p.y(tick)+4, "end", ink, fmt.Sprintf("%.0f", tick))
	}
	for i, n := range p.inFlight {
		text(p.x(i), plotHeight+18, "middle", ink, fmt.Sprint(n))
	}
	text(plotWidth/2, plotHeight+36, "middle", ink, "in flight")
	for i, y := range p.labels() {
		l := p.lines[i]
		dash := ""
		if !l.form.Coalesce && l.form.Face != BareSQL {
			dash = ` stroke-dasharray="6 4"`
		}
		fmt.Fprintf(b, `<polyline fill="none" stroke="%s" stroke-width="2"%s points="`, colour(l.form), dash)
		for i, v := range l.values {
			if !math.IsNaN(v) {
				fmt.Fprintf(b, "%.1f,%.1f ", p.x(i), p.y(v))
			}
		}
		b.WriteString("\"/>\n")
		text(plotWidth+10, y+4, "start", colour(l.form), l.form.String())
	}
}

// labels places each line's name beside its end, and pushes apart those that would lie on one another.
func (p panel) labels() []float64 {
	order := make([]int, len(p.lines))
	at := make([]float64, len(p.lines))
	for i, l := range p.lines {
		order[i] = i
		for _, v := range l.values {
			if !math.IsNaN(v) {
				at[i] = p.y(v)
			}
		}
	}
	slices.SortFunc(order, func(i, j int) int { return int(at[j] - at[i]) }) // from below
	free := float64(plotHeight)
	for _, i := range order {
		at[i] = min(at[i], free)
		free = at[i] - labelHeight
	}
	return at
}

func colour(f Form) string {
	switch f.Face {
	case GRPC:
		return grpcCol
	case REST:
		return restColor
	}
	return ceilingColour
}
