package lab

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// documented holds the document's figures: for each way, those of the columns that a table has of it.
type documented map[string][]string

// notJudged is said in the place of checks that a machine which stands still makes fail.
const notJudged = "The machine disturbed the runs %s, so how they compare is not judged."

// byWay returns the runs of each way, in the order of their first ones.
func (runs clusterRuns) byWay() (groups []clusterRuns) {
	at := map[string]int{}
	for _, c := range runs {
		i, ok := at[c.way]
		if !ok {
			i = len(groups)
			at[c.way] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], c)
	}
	return groups
}

// of returns the runs of a way.
func (runs clusterRuns) of(way string) clusterRuns {
	return slices.DeleteFunc(slices.Clone(runs), func(c *clusterRun) bool { return c.way != way })
}

// each words a figure of every run.
func (runs clusterRuns) each(sep string, word func(*clusterRun) string) string {
	var words []string
	for _, c := range runs {
		words = append(words, word(c))
	}
	return strings.Join(words, sep)
}

// sum adds up a figure of every run.
func (runs clusterRuns) sum(figure func(*clusterRun) int) (total int) {
	for _, c := range runs {
		total += figure(c)
	}
	return total
}

// late returns how long the machine stood still at most.
func (runs clusterRuns) late() (most time.Duration) {
	for _, c := range runs {
		most = max(most, c.Late)
	}
	return most
}

// ways names the runs.
func (runs clusterRuns) ways() string {
	var names []string
	for _, group := range runs.byWay() {
		names = append(names, group[0].way)
	}
	return strings.Join(names, ", ")
}

func packetRate(c *clusterRun) string { return fmt.Sprintf("%.1f", c.PacketRate) }

// allKnew words when the last survivor learnt of the death.
func allKnew(c *clusterRun) string {
	if c.Nodes == 0 {
		return "never complete"
	}
	if d, ok := c.AllKnew(); ok {
		return seconds(d)
	}
	return fmt.Sprintf("%d of %d", len(c.Learnt()), c.Survivors())
}

func falsePositives(c *clusterRun) int { return len(c.FalsePositives()) }

func (n membershipNumbers) bySizeReport(r *Report, runs clusterRuns) {
	doc := documented{
		wayHeartbeats: {"41 / 131 / 265", "0.49–0.54 s / 0.48–0.56 s / 0.48–0.63 s"},
		waySWIM:       {"9 / 9 / 9", "0.64–0.68 s / 0.9–1.05 s / 0.92–1.3 s"},
		waySuspicion:  {"", "1.7–1.76 s with 30 nodes"},
		wayLibrary:    {"", ""},
	}
	sizes := strings.Trim(strings.ReplaceAll(fmt.Sprint(n.Sizes), " ", " / "), "[]")
	load := Table{Title: "Packets that a node sends per second, with " + sizes + " nodes", Columns: []string{"", "document, 10 / 30 / 60", "here"}}
	known := Table{Title: "Until all survivors know of a death", Columns: load.Columns}
	growth := Plot{Title: "Packets per node and second", X: "nodes", Y: "packets per node and second", LogY: true}
	for _, group := range runs.byWay() {
		way := group[0].way
		load.add(way, doc[way][0], group.each(" / ", packetRate))
		known.add(way, doc[way][1], group.each(" / ", allKnew))
		s := Series{Name: way}
		for _, c := range group {
			if c.PacketRate > 0 { // a logarithmic axis has no place for a cluster that never was complete
				s.X, s.Y = append(s.X, float64(c.Nodes)), append(s.Y, c.PacketRate)
			}
		}
		growth.Series = append(growth.Series, s)
	}
	growth.Series = append(growth.Series,
		Series{Name: "heartbeats, document", X: []float64{10, 30, 60}, Y: []float64{41, 131, 265}, Document: true},
		Series{Name: "SWIM, document", X: []float64{10, 30, 60}, Y: []float64{9, 9, 9}, Document: true})
	r.Tables = append(r.Tables, load, known)
	r.Plots = append(r.Plots, growth, runs.spread(n.Sizes[len(n.Sizes)-1]))
	r.Notes = append(r.Notes, fmt.Sprintf("Packets are counted here from %s on, when all nodes are at work. The document counted from the "+
		"start, where nodes wait for up to two periods, and so has about a tenth less than (n−1) and 2 per period.", n.Settle))

	for _, c := range runs {
		if !c.library() || c.Late < n.Period/2 { // memberlist takes verdicts back; ours are final
			r.equal(fmt.Sprintf("%s, %d nodes: survivors that called the dead node dead", c.way, c.Nodes),
				int64(c.Survivors()), int64(c.CalledDead(0)))
		}
	}
	if !n.calm(runs) {
		r.Notes = append(r.Notes, fmt.Sprintf(notJudged, "by size"))
		return
	}
	grows := func(way string) float64 {
		group := runs.of(way)
		return group[len(group)-1].PacketRate / group[0].PacketRate
	}
	for _, way := range []string{waySWIM, waySuspicion} {
		smaller(r, way+": its packets grow less with the cluster than those of heartbeats, as a factor",
			twoDecimals(grows(way)), twoDecimals(grows(wayHeartbeats)))
	}
}

// twoDecimals keeps two decimals.
func twoDecimals(x float64) float64 { return float64(int(x*100+.5)) / 100 }

// spread draws how the news of a death spreads through the largest clusters.
func (runs clusterRuns) spread(nodes int) Plot {
	p := Plot{Title: fmt.Sprintf("How the news of a death spreads among %d nodes", nodes), X: "seconds since the death",
		Y: "survivors that know"}
	for _, c := range runs {
		if c.Nodes != nodes {
			continue
		}
		s := Series{Name: c.way, X: []float64{0}, Y: []float64{0}}
		for i, at := range c.Learnt() {
			if i == 0 { // until then nobody knows
				s.X, s.Y = append(s.X, at.Seconds()), append(s.Y, 0)
			}
			s.X, s.Y = append(s.X, at.Seconds()), append(s.Y, float64(i+1))
		}
		p.Series = append(p.Series, s)
	}
	return p
}

func (n membershipNumbers) lossReport(r *Report, runs clusterRuns) {
	doc := documented{
		wayHeartbeats: {"2–9", "", "0.58–0.65 s"},
		wayNoPingReq:  {"about 800", "all", ""},
		waySWIM:       {"0, 0, 0, 28", "0, 0, 0, 1", "0.5–0.95 s"},
		waySuspicion:  {"0", "0", "1.5–2.1 s"},
		wayLibrary:    {"", "", ""},
	}
	t := Table{Title: fmt.Sprintf("%d nodes, %.0f %% of the packets lost", n.Nodes, 100*n.Loss), Columns: []string{"",
		"false positives, document", "here", "nodes falsely called dead, document", "here", "all know of a real death, document", "here"}}
	for _, group := range runs.byWay() {
		d := doc[group[0].way]
		t.add(group[0].way, d[0], group.each(", ", func(c *clusterRun) string { return fmt.Sprint(falsePositives(c)) }),
			d[1], group.each(", ", func(c *clusterRun) string { return fmt.Sprint(c.Accused()) }), d[2], group.each(", ", allKnew))
	}
	r.Tables = append(r.Tables, t)
	if !n.calm(runs) {
		r.Notes = append(r.Notes, fmt.Sprintf(notJudged, "with loss"))
		return
	}
	without, with := runs.of(wayNoPingReq).sum(falsePositives), runs.of(waySWIM).sum(falsePositives)
	smaller(r, "loss: false positives with ping-req, fewer than without", with, without)
}

func (n membershipNumbers) freezeReport(r *Report, runs clusterRuns) {
	doc := documented{
		wayTimersFirst: {"28", "28", "0.46–0.62 s"},
		wayHeartbeats:  {"", "", ""},
		waySWIM:        {"28", "0", "0.69–1.25 s"},
		waySuspicion:   {"1 s: 0, 0, 0, 0, 0, 28", "0", "1.7–1.76 s"},
		wayLong:        {"2 s: 0", "0", "2.65–2.76 s"},
		wayLibrary:     {"", "", ""},
	}
	t := Table{Title: fmt.Sprintf("%d nodes, one of which stands still for %s", n.Nodes, ms(n.FreezeFor)), Columns: []string{"",
		"called it dead, document", "here", "it called dead, document", "here", "all know of a real death, document", "here"}}
	r.Notes = append(r.Notes, "SWIM notices a freeze only if a probe begins a period before it ends, or earlier: with 30 nodes and a freeze "+
		"of 3.5 periods none does in about 7 runs of 100, (1 − 2.5/29)²⁹.")
	calledDead := func(c *clusterRun) int { return c.CalledDead(c.Nodes - 1) }
	for _, group := range runs.byWay() {
		way, d := group[0].way, doc[group[0].way]
		if s := group[0].cfg.Suspicion; s > 0 {
			way = fmt.Sprintf("SWIM + suspicion, %s", s)
		}
		t.add(way, d[0], group.each(", ", func(c *clusterRun) string { return fmt.Sprint(calledDead(c)) }),
			d[1], group.each(", ", func(c *clusterRun) string { return fmt.Sprint(c.CalledDeadByLast()) }), d[2], group.each(", ", allKnew))
	}
	r.Tables = append(r.Tables, t)
	if !n.calm(runs) {
		r.Notes = append(r.Notes, fmt.Sprintf(notJudged, "with a freeze"))
		return
	}
	frozen := func(way string) int { return runs.of(way).sum(calledDead) }
	itself := func(way string) int {
		return runs.of(way).sum(func(c *clusterRun) int { return c.CalledDeadByLast() })
	}
	smaller(r, "freeze: heartbeats call the frozen node dead", 0, frozen(wayHeartbeats))
	smaller(r, "freeze: SWIM calls the frozen node dead", 0, frozen(waySWIM))
	r.equal(fmt.Sprintf("freeze: with suspicion of %s nobody calls the frozen node dead", n.LongSuspicion), 0, int64(frozen(wayLong)))
	smaller(r, "freeze: a node that reads its mail before it looks at the clock calls fewer dead", itself(wayHeartbeats),
		itself(wayTimersFirst))
}
