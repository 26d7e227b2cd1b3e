package demo

import (
	"fmt"
	"slices"
	"strings"
)

// scenario is one story and what must come of it.
type scenario struct {
	name  string
	title string
	needs needs
	play  func(*story)
	want  want
}

// needs is what a story can't be played without: the control of the PSP's faults, the control of the servers' processes (and
// so their database).
type needs struct{ faults, processes bool }

// missing says what the stage lacks; empty when it has all.
func (n needs) missing(st *stage) string {
	switch {
	case n.processes && st.rig == nil:
		return "it starts and kills servers of its own"
	case n.faults && st.psp == nil:
		return "it needs the PSP's admin API (--psp-url)"
	}
	return ""
}

// answers are what the app was told, one entry per call: its tries' statuses in order, those that follow one another and are
// alike told once, since how often one has to come back is a matter of time.
type answers []string

// want is what must come of a story: what the app was told, the charges at the PSP and the rows in payments for the order, and
// the lease under which the key was done: 1 more for each take-over.
type want struct {
	answers answers
	charges int
	rows    int
	lease   int64
}

// found is what came of it. What could not be looked at is nil.
type found struct {
	answers answers
	charges *int
	rows    *int
	key     *string
	// payments is how many different payments the answers named.
	payments int
}

// check is one thing that was held against what it should be.
type check struct{ what, want, got string }

func (c check) ok() bool { return c.want == c.got }

func doneUnder(lease int64) string { return fmt.Sprintf("done, lease %d", lease) }

// hold makes the checks that every story has.
func (w want) hold(f found) []check {
	var out []check
	count := func(what string, want int, got *int) {
		if got != nil {
			out = append(out, check{what, fmt.Sprint(want), fmt.Sprint(*got)})
		}
	}
	count("charges at the PSP", w.charges, f.charges)
	count("payment rows", w.rows, f.rows)
	if f.key != nil {
		out = append(out, check{"key", doneUnder(w.lease), *f.key})
	}
	out = append(out, check{"answers", strings.Join(w.answers, " | "), strings.Join(f.answers, " | ")})
	if slices.ContainsFunc(w.answers, paid) {
		count("payments that they name", 1, &f.payments)
	}
	return out
}

// paid reports whether an answer names a payment.
func paid(answer string) bool {
	return strings.Contains(answer, "201") || strings.Contains(answer, "OK")
}
