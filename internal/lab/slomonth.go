package lab

import (
	"math"
	"math/rand/v2"
)

// Minutes.
const (
	hourMinutes  = 60
	dayMinutes   = 24 * hourMinutes
	monthMinutes = 30 * dayMinutes
)

// month is 30 days of requests, minute by minute, in virtual time. Sums run over all minutes before one, so that a window is one
// subtraction, and every figure is an exact count.
type month struct {
	incidents []incident
	total     [monthMinutes + 1]int64 // requests before minute i
	failed    [monthMinutes + 1]int64 // of which failed
}

// incident is a stretch of time in which more requests fail.
type incident struct {
	name        string
	start, ends int   // minutes; ends is the first one after it
	perMille    int64 // requests that fail because of it, out of 1,000
	failed      int64 // how many did
}

// incidents are the month's: two that everybody notices, two that take their time, and those that spend next to nothing.
func incidents() []incident {
	at := func(day, hour int) int { return (day-1)*dayMinutes + hour*hourMinutes }
	all := []incident{
		{name: "outage of the PSP", start: at(8, 19), ends: at(8, 19) + 40, perMille: 600},
		{name: "bad release", start: at(14, 10), ends: at(14, 15), perMille: 50},
		{name: "one zone in trouble", start: at(18, 6), ends: at(19, 12), perMille: 25},
		{name: "slow leak", start: at(23, 0), ends: at(27, 0), perMille: 8},
		{name: "blip", start: at(3, 12), ends: at(3, 12) + 4, perMille: 200},
	}
	for _, day := range []int{2, 5, 10, 12, 16, 21, 28, 30} {
		all = append(all, incident{name: "deployment", start: at(day, 16), ends: at(day, 16) + 3, perMille: 100})
	}
	return all
}

// busyHours is how busy an hour of the day is, in per cent of the busiest one.
var busyHours = [24]int64{25, 22, 20, 20, 20, 22, 28, 40, 55, 70, 80, 85, 90, 90, 85, 85, 85, 90, 95, 100, 95, 80, 55, 35}

// newMonth draws the requests that fail.
func newMonth(n sloNumbers, draw *rand.Rand) *month {
	m := &month{incidents: incidents()}
	for minute := range monthMinutes {
		requests := n.PerMinute * busyHours[minute/hourMinutes%24] / 100
		failed := binomial(draw, requests, n.Baseline, 1_000_000)
		for i := range m.incidents {
			if in := &m.incidents[i]; minute >= in.start && minute < in.ends {
				more := binomial(draw, requests-failed, in.perMille, 1000)
				in.failed += more
				failed += more
			}
		}
		m.total[minute+1] = m.total[minute] + requests
		m.failed[minute+1] = m.failed[minute] + failed
	}
	return m
}

// binomial draws how many of n fail when each does with probability num/den, by drawing how many succeed before the next that
// fails: that takes as many draws as there are failures.
func binomial(draw *rand.Rand, n, num, den int64) (failed int64) {
	if num >= den {
		return n
	}
	perSuccess := math.Log1p(-float64(num) / float64(den))
	for at := int64(0); ; failed++ {
		skip := math.Log1p(-draw.Float64()) / perSuccess
		if skip >= float64(n-at) {
			return failed
		}
		at += int64(skip) + 1
	}
}

// window counts the requests of the minutes before end, and those that failed; a window that begins before the month is shorter.
func (m *month) window(end, minutes int) (total, failed int64) {
	from := max(0, end-minutes)
	return m.total[end] - m.total[from], m.failed[end] - m.failed[from]
}

// requests is how many there were in all.
func (m *month) requests() int64 { return m.total[monthMinutes] }
