package lab

import (
	"slices"
	"strings"
)

const (
	barHeight = 15
	// barGap lies between two categories.
	barGap = 10
	// mostLabel is how many characters of a category's name stand in a line.
	mostLabel = 22
)

// bars draws the categories one below the other, so that their names have room, and writes each value at its bar's end.
func (p Plot) bars(c *canvas) {
	_, ys := p.values()
	if p.LogY {
		ys = append(ys, slices.Min(ys)/2) // so that the least one has a bar to be seen
	}
	y := yScale(ys, p.LogY)
	names := make([][]string, len(p.Categories))
	left, valueWidth := float64(svgPad), 0.0
	for i, name := range p.Categories {
		names[i] = strings.Split(wrap(name, mostLabel), "\n")
		for _, line := range names[i] {
			left = max(left, svgPad+8+textWidth(line))
		}
	}
	for _, v := range ys {
		valueWidth = max(valueWidth, textWidth(figures(v))+8)
	}
	right := svgWidth - svgPad - valueWidth
	width := func(v float64) float64 { return (right - left) * y.place(v) }

	if p.X != "" {
		c.y += lineHeight
		c.text(svgPad, c.y-4, "start", "dim", p.X)
	}
	c.y += 4
	top := c.y
	bottom := top
	for _, lines := range names {
		bottom += p.groupHeight(lines) + barGap
	}
	for _, t := range y.ticks {
		c.line("grid", point{left + width(t), top}, point{left + width(t), bottom})
	}
	looks := p.looks()
	for i, lines := range names {
		middle := c.y + (p.groupHeight(lines)+barGap)/2
		for n, line := range lines {
			c.text(left-8, middle+4.5+lineHeight*(float64(n)-float64(len(lines)-1)/2), "end", "ink", line)
		}
		for k, s := range p.Series {
			if !finite(s.Y[i]) {
				continue
			}
			at, end := middle+barHeight*(float64(k)-float64(len(p.Series))/2), left
			if p.has(s, i) {
				end += width(s.Y[i])
				looks[k].bar(c, left, at+1, end-left, barHeight-2)
			}
			c.text(end+6, at+barHeight-3, "start", "dim", figures(s.Y[i]))
		}
		c.y += p.groupHeight(lines) + barGap
	}
	c.line("axis", point{left, top}, point{left, bottom})
	c.y += lineHeight
	c.text((left+right)/2, c.y, "middle", "dim", p.axisName())
}

// groupHeight is how much room a category needs.
func (p Plot) groupHeight(name []string) float64 {
	return float64(max(barHeight*len(p.Series), lineHeight*len(name)))
}

// axisName is Y, with a word of warning where lengths do not compare.
func (p Plot) axisName() string {
	if p.LogY {
		return p.Y + " (logarithmic)"
	}
	return p.Y
}
