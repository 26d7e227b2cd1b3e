package lab

import (
	"cmp"
	"fmt"
	"time"
)

// Report is what came of an experiment.
type Report struct {
	Tables []Table
	Plots  []Plot
	Checks []Check
	// Notes are what a reader of the figures has to know, such as how late the load generator was.
	Notes []string
}

// Table is figures with names. Every row has as many cells as there are columns.
type Table struct {
	Title   string
	Columns []string
	Rows    [][]string
}

// add appends a row.
func (t *Table) add(cells ...string) { t.Rows = append(t.Rows, cells) }

// Check is a bound that the figures are held against.
type Check struct {
	// What is measured, the bound it must keep, and what it is.
	What, Want, Got string
	OK              bool
	// Timed says that the figure depends on how fast the machine is just now. Such a bound is a promise at full size alone;
	// the others hold at every size, on every machine.
	Timed bool
}

// String words the check in one line.
func (c Check) String() string { return fmt.Sprintf("%s: %s (want %s)", c.What, c.Got, c.Want) }

// Missed returns the checks that did not hold, without those on time when timed is false.
func (r Report) Missed(timed bool) []Check {
	var out []Check
	for _, c := range r.Checks {
		if !c.OK && (timed || !c.Timed) {
			out = append(out, c)
		}
	}
	return out
}

// equal demands an exact figure.
func (r *Report) equal(what string, want, got int64) {
	r.Checks = append(r.Checks, Check{What: what, Want: fmt.Sprint(want), Got: fmt.Sprint(got), OK: got == want})
}

// same demands that two texts are alike.
func (r *Report) same(what, want, got string) {
	r.Checks = append(r.Checks, Check{What: what, Want: want, Got: got, OK: got == want})
}

// atMost demands a figure that does not depend on time.
func (r *Report) atMost(what string, most, got int64) {
	r.Checks = append(r.Checks, Check{What: what, Want: fmt.Sprintf("≤ %d", most), Got: fmt.Sprint(got), OK: got <= most})
}

// before demands an order of two moments, whatever lies between them.
func (r *Report) before(what string, first, second time.Time) {
	r.Checks = append(r.Checks, Check{What: what, Want: "before", Got: gap(first, second), OK: first.Before(second)})
}

// gap words how far apart two moments are.
func gap(first, second time.Time) string {
	if first.Before(second) {
		return ms(second.Sub(first)) + " before"
	}
	return ms(first.Sub(second)) + " after"
}

// timedAtMost demands a figure that depends on time.
func timedAtMost[T cmp.Ordered](r *Report, what string, most, got T) {
	r.Checks = append(r.Checks, Check{What: what, Want: "≤ " + figure(most), Got: figure(got), OK: got <= most, Timed: true})
}

func figure(v any) string {
	if d, ok := v.(time.Duration); ok {
		return ms(d)
	}
	return fmt.Sprint(v)
}

// ms words a duration for a table: three digits are enough.
func ms(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000)
	case d < 10*time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// seconds words a moment of an experiment.
func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
