package lab

import "math"

const (
	// areaHeight is the height of the area that lines are drawn on.
	areaHeight = 230
	// mostMarked is up to how many points of a line are all marked; of more, marks are about a few of them.
	mostMarked = 20
	fewMarks   = 6
	// tooNear is how near to the last one a point is left out: the eye cannot tell.
	tooNear = 0.4
)

// lines draws the series over x.
func (p Plot) lines(c *canvas) {
	xs, ys := p.values()
	x, y := xScale(xs), yScale(ys, p.LogY)
	left := float64(svgPad)
	for _, t := range y.ticks {
		left = max(left, svgPad+8+textWidth(y.label(t)))
	}
	right := float64(svgWidth - 2*svgPad)
	c.y += lineHeight
	c.text(svgPad, c.y-4, "start", "dim", p.Y)
	bottom := c.y + 8 + areaHeight
	at := func(px, py float64) point {
		return point{left + (right-left)*x.place(px), bottom - areaHeight*y.place(py)}
	}

	for _, t := range y.ticks {
		from := at(x.low, t)
		c.line("grid", from, point{right, from.y})
		c.text(left-6, from.y+4, "end", "dim", y.label(t))
	}
	c.line("axis", point{left, bottom}, point{right, bottom})
	free := math.Inf(-1) // where the last name ended
	for _, t := range x.ticks {
		foot := at(t, y.low)
		c.line("axis", foot, point{foot.x, bottom + 4})
		if half := textWidth(x.label(t)) / 2; foot.x-half > free {
			c.text(foot.x, bottom+lineHeight, "middle", "dim", x.label(t))
			free = foot.x + half + charWidth
		}
	}
	c.y = bottom + lineHeight
	if p.X != "" {
		c.y += lineHeight
		c.text((left+right)/2, c.y, "middle", "dim", p.X)
	}
	for i, l := range p.looks() {
		p.series(c, l, p.Series[i], at)
	}
}

// series draws a line, in parts where a value is missing.
func (p Plot) series(c *canvas, l look, s Series, at func(x, y float64) point) {
	every, first := 1, 0
	if len(s.Y) > mostMarked {
		every = len(s.Y) / fewMarks
		first = every * (l.number % 4) / 4 // not where another line has its own
	}
	var part, marks []point
	end := func() {
		if len(part) > 1 {
			l.polyline(c, part)
		} else if every > 1 {
			marks = append(marks, part...) // else it could not be seen
		}
		part = nil
	}
	for i := range s.Y {
		if !p.has(s, i) {
			end()
			continue
		}
		next := at(s.X[i], s.Y[i])
		if i%every == first {
			marks = append(marks, next)
		}
		if n := len(part); n > 1 && i < len(s.Y)-1 && near(part[n-1], next) {
			continue
		}
		part = append(part, next)
	}
	end()
	for _, m := range marks {
		l.mark(c, m)
	}
}

func near(a, b point) bool { return math.Abs(a.x-b.x) < tooNear && math.Abs(a.y-b.y) < tooNear }
