package lab

import (
	"fmt"
	"math/rand/v2"
	"time"

	"chargeonce/internal/lab/phi"
)

// link is a way that heartbeats take: each is delayed by an exponentially distributed time, of its own mean. The intervals
// between them then have a longer tail than the normal distribution that φ is reckoned with, as on a real network.
type link struct {
	name          string
	before, after time.Duration // the mean delay in the first half of the trace, and in the second
}

var links = []link{
	{"same rack", 5 * time.Millisecond, 5 * time.Millisecond},
	{"other zone", 50 * time.Millisecond, 50 * time.Millisecond},
	{"overseas", 200 * time.Millisecond, 200 * time.Millisecond},
	{"other zone, congested from halfway on", 50 * time.Millisecond, 200 * time.Millisecond},
}

// beat is one heartbeat, counted from the start of the trace.
type beat struct{ sent, arrived time.Duration }

// trace draws the heartbeats of a link. None overtakes another.
func (l link) trace(rng *rand.Rand, beats int, every time.Duration) []beat {
	out := make([]beat, beats)
	for i := range out {
		mean := l.before
		if i >= beats/2 {
			mean = l.after
		}
		out[i].sent = time.Duration(i) * every
		out[i].arrived = out[i].sent + time.Duration(rng.ExpFloat64()*float64(mean))
		if i > 0 {
			out[i].arrived = max(out[i].arrived, out[i-1].arrived)
		}
	}
	return out
}

// watcher says how long it waits after a heartbeat before it suspects the node.
type watcher interface {
	Heartbeat(at time.Time)
	Patience() time.Duration
}

// fixed is the watcher that always waits equally long.
type fixed time.Duration

func (fixed) Heartbeat(time.Time)       {}
func (f fixed) Patience() time.Duration { return time.Duration(f) }

// watched is what came of watching a trace.
type watched struct {
	beats     int
	wrong     int           // suspicions of the living: the next heartbeat came later than the watcher waited
	detection time.Duration // sum, over all heartbeats, from when it was sent until the watcher, hearing no other, suspects
}

func (w watched) mean() time.Duration { return w.detection / time.Duration(max(1, w.beats)) }

// per10k returns the false suspicions among ten thousand heartbeats.
func (w watched) per10k() float64 { return float64(w.wrong) * 1e4 / float64(max(1, w.beats)) }

func (w watched) plus(other watched) watched {
	return watched{w.beats + other.beats, w.wrong + other.wrong, w.detection + other.detection}
}

// watch lets a watcher hear a trace, and asks after each heartbeat: would the next come in time, and if this one was the last,
// when would that be noticed?
func watch(w watcher, trace []beat) (out watched) {
	epoch := time.Unix(0, 0)
	for i, b := range trace[:len(trace)-1] {
		w.Heartbeat(epoch.Add(b.arrived))
		suspected := b.arrived + w.Patience()
		out.beats++
		out.detection += suspected - b.sent
		if trace[i+1].arrived > suspected {
			out.wrong++
		}
	}
	return out
}

// onLinks compares one fixed time-out for all links with one threshold of φ for all links.
func (n phiNumbers) onLinks(r *Report, seed uint64) {
	traces := make([][]beat, len(links))
	columns := []string{"watcher", "false suspicions per 10,000", "mean detection"}
	for i, l := range links {
		traces[i] = l.trace(rand.New(rand.NewPCG(seed, uint64(i))), n.Beats, n.Interval)
		columns = append(columns, l.name)
	}
	t := Table{Title: fmt.Sprintf("%d heartbeats on each of %d links: false suspicions, and how soon a death is noticed",
		n.Beats, len(links)), Columns: columns}
	plot := Plot{Title: "Few false suspicions or quick detection", X: "mean detection, seconds",
		Y: "false suspicions per 10,000 heartbeats", LogY: true}

	all := func(name string, newWatcher func() watcher) (total watched) {
		row := []string{name, "", ""}
		for _, trace := range traces {
			w := watch(newWatcher(), trace)
			total = total.plus(w)
			row = append(row, fmt.Sprintf("%.1f, %s", w.per10k(), seconds(w.mean())))
		}
		row[1], row[2] = fmt.Sprintf("%.2f", total.per10k()), seconds(total.mean())
		t.add(row...)
		return total
	}
	var fixes, phis []watched
	for _, f := range []float64{1.25, 1.5, 2, 2.5, 3, 4} {
		d := time.Duration(f * float64(n.Interval))
		fixes = append(fixes, all("fixed "+d.String(), func() watcher { return fixed(d) }))
	}
	for _, threshold := range []float64{1, 2, 4, n.Low, n.High} {
		cfg := phi.Config{Threshold: threshold, MaxSamples: 1000, MinStdDev: n.Interval / 100, Interval: n.Interval}
		phis = append(phis, all(fmt.Sprintf("φ %g", threshold), func() watcher { return phi.New(cfg) }))
	}
	low := phis[len(phis)-2]
	all("φ 8, Akka's defaults", func() watcher { return phi.New(phi.AkkaCluster()) })
	r.Tables = append(r.Tables, t)
	plot.Series = []Series{tradeOff("fixed time-out", fixes), tradeOff("φ, nothing forgiven", phis)}
	r.Plots = append(r.Plots, plot)
	r.Notes = append(r.Notes, fmt.Sprintf("The delays of the trace are exponentially distributed. φ = %g claims to err once in 10^%g times; "+
		"on these links it erred %.1f times in 10⁴. Most of it follows the congestion, until the detector has learnt of that.",
		n.Low, n.Low, low.per10k()))
	what := fmt.Sprintf("on all links: φ %g notices a death sooner than the quickest time-out that errs no more often", n.Low)
	smaller(r, what, low.mean(), quickest(fixes, low.wrong).mean())
}

// quickest returns the setting with the shortest detection among those that err at most so often.
func quickest(settings []watched, wrong int) (best watched) {
	for _, w := range settings {
		if w.wrong <= wrong && (best.beats == 0 || w.mean() < best.mean()) {
			best = w
		}
	}
	return best
}

// tradeOff is a line of a plot: one point for each setting. A logarithmic axis has no place for 0.
func tradeOff(name string, settings []watched) Series {
	s := Series{Name: name}
	for _, w := range settings {
		if w.wrong > 0 {
			s.X, s.Y = append(s.X, w.mean().Seconds()), append(s.Y, w.per10k())
		}
	}
	return s
}
