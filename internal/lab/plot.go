package lab

import (
	"errors"
	"fmt"
	"math"
)

// Plot is a picture of figures: lines over x or, with Categories, bars. [SVG] draws it.
type Plot struct {
	// Title says what is to be seen; X and Y name the axes, with their units.
	Title, X, Y string
	// Categories, if set, makes it a bar chart: each series has one Y per category, and no X.
	Categories []string
	Series     []Series
	// LogY makes the y axis logarithmic. Only what is positive has a place on it.
	LogY bool
}

// Series is one line of a plot, or one colour of bars. What has no place on the axes is left out: a gap in the line. That is a value
// that is infinite or no number and, on a logarithmic axis, one that is not positive.
type Series struct {
	Name string
	X, Y []float64
	// Document says that these are the document's figures and not ours: drawn lighter, or dashed. It has the colour of the series
	// of ours that has its name (the words "document", "ours" and "here" apart), else of one whose name holds it, else of the one
	// before it.
	Document bool
}

// check reports what makes a plot one that cannot be drawn.
func (p Plot) check() error {
	if p.Categories != nil && len(p.Categories) == 0 {
		return errors.New("bars without categories")
	}
	seen := false
	for _, s := range p.Series {
		switch {
		case p.Categories != nil && (len(s.Y) != len(p.Categories) || len(s.X) != 0):
			return fmt.Errorf("%q has %d values and %d x for %d categories", s.Name, len(s.Y), len(s.X), len(p.Categories))
		case p.Categories == nil && len(s.X) != len(s.Y):
			return fmt.Errorf("%q has %d x and %d y", s.Name, len(s.X), len(s.Y))
		}
		for i, y := range s.Y {
			if y < 0 && p.Categories != nil {
				return fmt.Errorf("%q has a bar of %g", s.Name, y)
			}
			seen = seen || p.has(s, i)
		}
	}
	if !seen {
		return errors.New("no value")
	}
	return nil
}

// has reports whether a value of a series has a place on the axes.
func (p Plot) has(s Series, i int) bool {
	return finite(s.Y[i]) && (len(s.X) == 0 || finite(s.X[i])) && (!p.LogY || s.Y[i] > 0)
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// values returns all that is drawn, as it lies along the two axes; bars have no x.
func (p Plot) values() (xs, ys []float64) {
	for _, s := range p.Series {
		for i, y := range s.Y {
			if !p.has(s, i) {
				continue
			}
			ys = append(ys, y)
			if len(s.X) > 0 {
				xs = append(xs, s.X[i])
			}
		}
	}
	return xs, ys
}
