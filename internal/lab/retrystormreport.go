package lab

import (
	"fmt"
	"slices"
	"time"
)

// stormDocument are the document's figures of two runs, by policy.
var stormDocument = map[string][]string{
	"at once":      {"5000", "500", "never", "never", "0"},
	"fixed 500 ms": {"3824–3878", "179–198", "4.1 s", "never", "449–500"},
	"exponential":  {"4349–4419", "255–277", "never", "never", "500"},
	"full jitter":  {"3046–3074", "0", "1.7 s", "4.1–4.2 s", "70–87"},
}

func (n stormNumbers) report(runs []stormRun) (r Report) {
	perWindow := "per " + figure(n.Base)
	t := Table{Columns: []string{"wait", "", "requests", "clients that give up", "50 % done by", "99 % done by",
		"peak after the outage, " + perWindow}}
	when := Plot{Title: "Requests at the PSP, by when", X: "seconds", Y: "requests " + perWindow}
	for _, s := range []stormRun{runs[stormExponential], runs[stormFull]} {
		when.Series = append(when.Series, windowSeries(s.name, s.arrivals, n.Base))
	}
	peaks := Plot{Title: "The most requests at the PSP after the outage", Y: when.Y, Series: []Series{{Name: "here"}}}
	for _, s := range runs {
		if doc := stormDocument[s.name]; doc != nil {
			t.add(append([]string{s.name, "document"}, doc...)...)
		}
		t.add(s.name, "here", fmt.Sprint(s.requests), fmt.Sprint(n.gaveUp(s)), n.doneBy(s, .5), n.doneBy(s, .99), fmt.Sprint(n.peak(s)))
		r.equal(s.name+": charges at the PSP, one for each client that got through", int64(len(s.done)), s.charges)
		r.equal(s.name+": requests at the PSP that the clients know of", int64(len(s.arrivals)), s.requests)
		peaks.Categories, peaks.Series[0].Y = append(peaks.Categories, s.name), append(peaks.Series[0].Y, float64(n.peak(s)))
	}
	r.Tables, r.Plots = append(r.Tables, t), append(r.Plots, when, peaks)
	r.Notes = append(r.Notes,
		fmt.Sprintf("Time is real, and not sped up. %d policies run side by side, each with a PSP and connections of its own.", n.SideBySide),
		"The service's client draws from a generator that takes no seed; the other draws repeat with --seed.",
		"The document's code of ± 20 % draws from 0 to + 20 %. Here it is what the words say.")
	n.check(&r, runs)
	return r
}

// The places of policies among the runs.
const stormAtOnce, stormFixed, stormExponential, stormFull, stormOurs = 0, 1, 2, 3, 4

// check holds the policies against each other.
func (n stormNumbers) check(r *Report, runs []stormRun) {
	atOnce, fixed, exponential, full, ours := runs[stormAtOnce], runs[stormFixed], runs[stormExponential], runs[stormFull], runs[stormOurs]
	r.equal("full jitter: clients that give up", 0, n.gaveUp(full))
	r.equal("full jitter, our client: clients that give up", 0, n.gaveUp(ours))
	// On a machine that is too busy to let all clients ask in one moment, the machine spreads the wave as jitter would.
	if wave := n.wave(exponential); 4*wave < 3*n.Clients {
		r.Notes = append(r.Notes, fmt.Sprintf("The machine was busy: of %d clients that were to come in one moment, %d came within %s. "+
			"So the policies could not be held against each other.", n.Clients, wave, ms(n.Base)))
		return
	}
	r.atMost("at once: clients that get through, fewer than with full jitter", int64(len(full.done))-1, int64(len(atOnce.done)))
	r.atMost("exponential: clients that get through, fewer than with full jitter", int64(len(full.done))-1, int64(len(exponential.done)))
	r.atMost("full jitter: requests, fewer than exponential", exponential.requests-1, full.requests)
	r.atMost("full jitter: peak, lower than exponential's", n.peak(exponential)-1, n.peak(full))
	r.atMost("full jitter: peak, lower than with a fixed wait", n.peak(fixed)-1, n.peak(full))
}

// gaveUp counts the clients that never got through.
func (n stormNumbers) gaveUp(s stormRun) int64 { return int64(n.Clients - len(s.done)) }

// doneBy is when a share of all clients had got through, if so many ever did.
func (n stormNumbers) doneBy(s stormRun, share float64) string {
	if i := rank(n.Clients, share); i < len(s.done) {
		return seconds(s.done[i])
	}
	return "never"
}

// peak is the most requests in one window after the outage.
func (n stormNumbers) peak(s stormRun) (most int64) {
	for i, count := range perWindow(s.arrivals, n.Base) {
		if time.Duration(i)*n.Base >= n.Outage {
			most = max(most, int64(count))
		}
	}
	return most
}

// wave is how many requests after the outage came closest together: within one window's width, wherever that lies.
func (n stormNumbers) wave(s stormRun) int {
	after := slices.DeleteFunc(slices.Clone(s.arrivals), func(at time.Duration) bool { return at < n.Outage })
	return densest(after, n.Base)
}

// densest is the most moments that lie within one width.
func densest(moments []time.Duration, width time.Duration) (most int) {
	sorted := slices.Sorted(slices.Values(moments))
	first := 0
	for i, at := range sorted {
		for sorted[first] <= at-width {
			first++
		}
		most = max(most, i+1-first)
	}
	return most
}

// perWindow counts moments in windows of one width, the first of which begins at 0.
func perWindow(moments []time.Duration, width time.Duration) []int {
	var out []int
	for _, at := range moments {
		i := int(at / width)
		for len(out) <= i {
			out = append(out, 0)
		}
		out[i]++
	}
	return out
}

// windowSeries is a line of counts per window, each at its window's beginning, in seconds.
func windowSeries(name string, moments []time.Duration, width time.Duration) Series {
	s := Series{Name: name}
	for i, count := range perWindow(moments, width) {
		s.X = append(s.X, (time.Duration(i) * width).Seconds())
		s.Y = append(s.Y, float64(count))
	}
	return s
}
