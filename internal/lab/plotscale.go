package lab

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// scale is an axis: where a value lies on it, and which values are named.
type scale struct {
	low, high float64
	log       bool
	ticks     []float64
	decimals  int // of the ticks
}

// place is where a value lies: 0 at the beginning, 1 at the end.
func (s scale) place(v float64) float64 {
	if s.log {
		return math.Log(v/s.low) / math.Log(s.high/s.low)
	}
	return (v - s.low) / (s.high - s.low)
}

func (s scale) label(tick float64) string {
	if s.log {
		return figures(tick)
	}
	return grouped(strconv.FormatFloat(tick, 'f', s.decimals, 64))
}

// fewTicks is about how many values an axis names, and mostOwnTicks up to how many values along x are named all.
const (
	fewTicks     = 5
	mostOwnTicks = 8
)

// yScale begins at 0, or below it if a value does, and ends at a tick that no value is above.
func yScale(values []float64, log bool) scale {
	if log {
		return logScale(values)
	}
	s := scale{low: min(0, slices.Min(values)), high: max(0, slices.Max(values))}
	step := s.spread()
	s.low, s.high = math.Floor(s.low/step)*step, math.Ceil(s.high/step)*step
	s.tick(step)
	return s
}

// xScale ends with the values, or begins at 0 if they nearly do.
func xScale(values []float64) scale {
	s := scale{low: slices.Min(values), high: slices.Max(values)}
	if s.low > 0 && s.low < s.high/20 {
		s.low = 0
	}
	step := s.spread()
	s.tick(step)
	own := slices.Compact(slices.Sorted(slices.Values(values)))
	if len(own) <= mostOwnTicks {
		s.ticks = own
		for _, v := range own {
			text := strconv.FormatFloat(v, 'f', -1, 64)
			if _, fraction, ok := strings.Cut(text, "."); ok {
				s.decimals = max(s.decimals, min(2, len(fraction)))
			}
		}
	}
	return s
}

// logScale ends at powers of ten, or within a few of them at 2 or 5 times one.
func logScale(values []float64) scale {
	low, high := slices.Min(values), slices.Max(values)
	factors := []float64{1}
	if high/low < 100 {
		factors = []float64{1, 2, 5}
	}
	s := scale{log: true}
	for power := math.Floor(math.Log10(low)); ; power++ {
		for _, f := range factors {
			tick := f * math.Pow(10, power)
			if tick <= low {
				s.ticks = s.ticks[:0] // the one below is the beginning at most
			}
			s.ticks = append(s.ticks, tick)
			if tick >= high && len(s.ticks) > 1 {
				s.low, s.high = s.ticks[0], tick
				s.thin()
				return s
			}
		}
	}
}

// spread makes room where there is none, and returns how far apart ticks are: 1, 2 or 5 times a power of ten.
func (s *scale) spread() (step float64) {
	if s.low == s.high {
		s.high = s.low + max(1, math.Abs(s.low))
	}
	rough := (s.high - s.low) / fewTicks
	power := math.Pow(10, math.Floor(math.Log10(rough)))
	for _, f := range []float64{1, 2, 5, 10} {
		if step = f * power; rough <= step {
			break
		}
	}
	s.decimals = max(0, -int(math.Floor(math.Log10(step)+1e-9)))
	return step
}

// tick names the multiples of step that lie on the axis.
func (s *scale) tick(step float64) {
	const slack = 1e-9 // for what cannot be written in binary
	for n := math.Ceil(s.low/step - slack); n*step <= s.high+slack*step; n++ {
		s.ticks = append(s.ticks, n*step+0) // +0: a zero without a sign
	}
}

// thin leaves as many ticks as have room.
func (s *scale) thin() {
	every := (len(s.ticks) + 2*fewTicks - 1) / (2 * fewTicks)
	var kept []float64
	for i := 0; i < len(s.ticks); i += every {
		kept = append(kept, s.ticks[i])
	}
	s.ticks = kept
}

// figures writes a value with three digits, or all of an integer below a million.
func figures(v float64) string {
	switch size := math.Abs(v); {
	case size >= 1e9:
		return figures3(v/1e9) + " G"
	case size >= 1e6:
		return figures3(v/1e6) + " M"
	case size >= 1000:
		return grouped(strconv.FormatFloat(v, 'f', 0, 64))
	case size < 1e-3 && size > 0:
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	return figures3(v)
}

func figures3(v float64) string {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64)
	if err != nil {
		return "?"
	}
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}

// grouped puts a comma between thousands.
func grouped(number string) string {
	whole, fraction, _ := strings.Cut(number, ".")
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "-", whole[1:]
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction != "" {
		whole += "." + fraction
	}
	return sign + whole
}
