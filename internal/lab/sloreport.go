package lab

import (
	"fmt"
	"math"
)

// sloResult is the month and what the alerts made of it.
type sloResult struct {
	sloNumbers
	month   *month
	burning []alert
	plain   alert
	fired   map[string][]int // by alert
}

// budget is how many requests of the month may fail.
func (s sloResult) budget() int64 { return s.month.requests() * (10_000 - s.Objective) / 10_000 }

// worthPerMille is the share of the budget, out of 1,000, from which an incident is worth an alert: what the most sensitive of the
// alerts on the burn rate is made for.
const worthPerMille = 20

func (s sloResult) matters(in incident) bool { return 1000*in.failed >= worthPerMille*s.budget() }

// falseAlarms counts the firings of an alert that are about no incident that matters.
func (s sloResult) falseAlarms(a alert) (n int64) {
	for _, minute := range s.fired[a.name] {
		about := false
		for _, in := range s.month.incidents {
			about = about || s.matters(in) && a.tells(in, minute)
		}
		if !about {
			n++
		}
	}
	return n
}

// first is when the first of several alerts tells of an incident; false if none does.
func (s sloResult) first(in incident, alerts ...alert) (after int, ok bool) {
	after = math.MaxInt
	for _, a := range alerts {
		if at, tells := a.told(in, s.fired[a.name]); tells {
			after, ok = min(after, at), true
		}
	}
	return after, ok
}

func (s sloResult) report() (r Report) {
	r.Tables = append(r.Tables, s.budgetTable(), s.alertTable(), s.incidentTable())
	r.Plots = append(r.Plots, s.budgetPlot(), s.burnPlot())
	r.Notes = append(r.Notes,
		fmt.Sprintf("An incident matters when it alone spends %s of the month's budget.", percentOf(worthPerMille, 1000)),
		"Time is virtual and begins with the month. The document has the objective and the budget; the alerts are those of The Site Reliability "+
			"Workbook, chapter 5; traffic and incidents are made up.")

	var all, byBurn, byPlain, falseBurn int64
	for _, in := range s.month.incidents {
		if !s.matters(in) {
			continue
		}
		all++
		if _, ok := s.first(in, s.burning...); ok {
			byBurn++
		}
		if _, ok := s.first(in, s.plain); ok {
			byPlain++
		}
	}
	for _, a := range s.burning {
		falseBurn += s.falseAlarms(a)
	}
	r.equal("burn rate: incidents that matter and are told", all, byBurn)
	r.equal("burn rate: false alarms", 0, falseBurn)
	r.atMost("plain error rate: incidents that matter and are told, fewer than there are", all-1, byPlain)
	r.atMost("burn rate: false alarms, fewer than of the plain error rate", s.falseAlarms(s.plain)-1, falseBurn)
	s.sooner(&r)
	return r
}

// sooner checks that what burns faster is told sooner.
func (s sloResult) sooner(r *Report) {
	for i, slower := range s.month.incidents[1:] {
		faster := s.month.incidents[i]
		if !s.matters(slower) || !s.matters(faster) {
			return
		}
		first, _ := s.first(faster, s.burning...)
		second, _ := s.first(slower, s.burning...)
		r.atMost(fmt.Sprintf("minutes until told of the %s, fewer than of the %s", faster.name, slower.name), int64(second)-1, int64(first))
	}
}

func (s sloResult) budgetTable() Table {
	t := Table{Title: "The error budget of 30 days", Columns: []string{"", "document", "here"}}
	minutes := monthMinutes * (10_000 - s.Objective) / 10_000
	spent := s.month.failed[monthMinutes]
	t.add("objective", "99.5 %", percentOf(s.Objective, 10_000))
	t.add("budget, if everything failed", "≈ 3.6 h", tenths(minutes*10/hourMinutes)+" h")
	t.add("requests", "", fmt.Sprint(s.month.requests()))
	t.add("budget", "", fmt.Sprintf("%d requests", s.budget()))
	t.add("spent", "", fmt.Sprintf("%d requests, %s", spent, percentOf(spent, s.budget())))
	return t
}

func (s sloResult) alertTable() Table {
	t := Table{Title: "The alerts", Columns: []string{"alert", "made for this share of the budget", "fires", "of these, false alarms"}}
	for _, a := range s.burning {
		t.add(a.name, percentOf(a.budgetPerMille(), 1000), fmt.Sprint(len(s.fired[a.name])), fmt.Sprint(s.falseAlarms(a)))
	}
	t.add(s.plain.name, "", fmt.Sprint(len(s.fired[s.plain.name])), fmt.Sprint(s.falseAlarms(s.plain)))
	return t
}

func (s sloResult) incidentTable() Table {
	t := Table{Title: "The incidents, and how long after its beginning each alert tells of it", Columns: []string{"incident", "day", "lasts", "fails",
		"burn rate", "spends of the budget", "matters"}}
	alerts := append(append([]alert(nil), s.burning...), s.plain)
	for _, a := range alerts {
		t.Columns = append(t.Columns, a.name)
	}
	for _, in := range s.month.incidents {
		matters := "no"
		if s.matters(in) {
			matters = "yes"
		}
		cells := []string{in.name, fmt.Sprint(in.start/dayMinutes + 1), spanOf(in.ends - in.start), percentOf(in.perMille, 1000),
			tenths(100*in.perMille/(10_000-s.Objective)) + "×", percentOf(in.failed, s.budget()), matters}
		for _, a := range alerts {
			cell := "–"
			if after, ok := a.told(in, s.fired[a.name]); ok {
				cell = spanOf(after)
			}
			cells = append(cells, cell)
		}
		t.add(cells...)
	}
	return t
}

// budgetPlot draws what is left of the budget.
func (s sloResult) budgetPlot() Plot {
	left := Series{Name: "budget left"}
	for minute := 0; minute <= monthMinutes; minute += 3 * hourMinutes {
		left.X = append(left.X, float64(minute)/dayMinutes)
		left.Y = append(left.Y, 100*(1-float64(s.month.failed[minute])/float64(s.budget())))
	}
	return Plot{Title: "The error budget", X: "days", Y: "per cent left", Series: []Series{left}}
}

// burnPlot draws the burn rate over the shortest and over the longest of the long windows.
func (s sloResult) burnPlot() Plot {
	const least = 0.01 // a logarithm has no zero
	p := Plot{Title: "The burn rate", X: "days", Y: "times the rate that lasts a month", LogY: true}
	for _, a := range []alert{s.burning[0], s.burning[len(s.burning)-1]} {
		line := Series{Name: "over " + spanOf(a.long)}
		for minute := hourMinutes; minute <= monthMinutes; minute += hourMinutes {
			total, failed := s.month.window(minute, a.long)
			line.X = append(line.X, float64(minute)/dayMinutes)
			line.Y = append(line.Y, max(least, float64(failed)/float64(total)*10_000/float64(10_000-s.Objective)))
		}
		p.Series = append(p.Series, line)
	}
	return p
}
