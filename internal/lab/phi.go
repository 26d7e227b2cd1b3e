package lab

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"chargeonce/internal/lab/phi"
)

var phiExperiment = with(Experiment{
	Name:  "phi",
	Title: "How long a node may be silent: the φ accrual failure detector beside a fixed time-out",
	Shows: `A fixed time-out is either short, and suspects whoever is slow, or long, and learns late of a death. The φ detector
learns how regular the heartbeats of each node are, and says how unlikely the present silence is: φ = 8 is once in 10⁸, if the
intervals are normally distributed. So it soon suspects a node that was always punctual, and waits for one that never was, with
one threshold for both. Akka forgives 3 s of silence on top, for garbage collection: with its defaults most of the wait is that
pause, and little of it is learnt. Real delays have longer tails than the normal distribution, so φ = 8 errs far more often than
once in 10⁸; it is a scale, not a promise.`,
	Bound: 30 * time.Second,
	Code:  []string{"internal/lab/phi/detector.go", "internal/lab/phi/history.go", "internal/lab/phi.go", "internal/lab/philinks.go", "internal/lab/philive.go"},
}, phiFull, phiSmall, runPhi)

// phiNumbers are what the experiment is made with.
type phiNumbers struct {
	Interval  time.Duration `help:"Between two heartbeats."`
	StdDev    time.Duration `help:"Standard deviation of the intervals of the first table."`
	Low       float64       `help:"The lower threshold: Akka's default."`
	High      float64       `help:"The higher threshold: Akka's advice for a cloud."`
	Fixed     time.Duration `help:"The fixed time-out."`
	Beats     int           `help:"Heartbeats on each link of the trace."`
	LiveBeats int           `help:"Heartbeats that are really sent, over UDP."`
	LiveEvery time.Duration `help:"Between two of those."`
}

var (
	phiFull = phiNumbers{Interval: time.Second, StdDev: 100 * time.Millisecond, Low: 8, High: 12, Fixed: 3 * time.Second,
		Beats: 20000, LiveBeats: 100, LiveEvery: 20 * time.Millisecond}
	phiSmall = phiNumbers{Interval: time.Second, StdDev: 100 * time.Millisecond, Low: 8, High: 12, Fixed: 3 * time.Second,
		Beats: 1500, LiveBeats: 20, LiveEvery: 20 * time.Millisecond}
)

func runPhi(ctx context.Context, _ Env, o Options, n phiNumbers) (r Report, err error) {
	if n.Beats < 2 || n.LiveBeats < 2 || n.Interval <= 0 || n.StdDev <= 0 || n.LiveEvery <= 0 {
		return r, fmt.Errorf("phi: two heartbeats at least, and times above 0, not %+v", n)
	}
	n.patience(&r)
	n.overTime(&r)
	n.onLinks(&r, o.Seed)
	return r, n.live(ctx, &r)
}

// curve is one model of the heartbeats: how φ is reckoned, and with which mean and deviation.
type curve struct {
	name         string
	phi          func(silence, mean, stdDev time.Duration) float64
	mean, stdDev time.Duration
	document     string // at the lower threshold
}

func (n phiNumbers) curves() []curve {
	akka := phi.AkkaCluster()
	regular := fmt.Sprintf("every %s ± %s", n.Interval, n.StdDev)
	withPause := fmt.Sprintf("Akka's defaults, %s forgiven", akka.Pause)
	return []curve{
		{regular + ", normal distribution", phi.Normal, n.Interval, n.StdDev, "1.56 s"},
		{regular + ", Akka's approximation", phi.Logistic, n.Interval, n.StdDev, ""},
		{fmt.Sprintf("every %s ± %s, normal distribution", n.Interval, 3*n.StdDev), phi.Normal, n.Interval, 3 * n.StdDev, ""},
		{withPause + ", normal distribution", phi.Normal, n.Interval + akka.Pause, akka.MinStdDev, "≈ 4.5 s"},
		{withPause + ", Akka's approximation", phi.Logistic, n.Interval + akka.Pause, akka.MinStdDev, "≈ 4.5 s"},
	}
}

// patience reckons how long each model waits.
func (n phiNumbers) patience(r *Report) {
	t := Table{Title: "Silence until a node is suspected", Columns: []string{"heartbeats", "document, φ 8",
		fmt.Sprintf("here, φ %g", n.Low), fmt.Sprintf("here, φ %g", n.High)}}
	silence := map[string]time.Duration{}
	for _, c := range n.curves() {
		low, high := phi.Silence(n.Low, c.phi, c.mean, c.stdDev), phi.Silence(n.High, c.phi, c.mean, c.stdDev)
		t.add(c.name, c.document, seconds(low), seconds(high))
		silence[c.name] = low
		smaller(r, c.name+": the lower threshold suspects sooner", low, high)
	}
	t.add("fixed time-out", "3 s", seconds(n.Fixed), seconds(n.Fixed))
	r.Tables = append(r.Tables, t)
	r.Notes = append(r.Notes, "Akka reckons with a logistic approximation of the normal distribution. Far out in the tail it rises faster, "+
		"so Akka suspects a little sooner than the exact formula.")

	c := n.curves()
	smaller(r, "regular heartbeats: φ suspects before the fixed time-out", silence[c[0].name], n.Fixed)
	smaller(r, "irregular heartbeats: φ waits longer than for regular ones", silence[c[0].name], silence[c[2].name])
	smaller(r, "the forgiven pause makes it wait longer than the fixed time-out", n.Fixed, silence[c[4].name])
}

// overTime draws φ over the silence.
func (n phiNumbers) overTime(r *Report) {
	const steps, top = 240, 16.0
	p := Plot{Title: "Suspicion over silence", X: "seconds since the last heartbeat", Y: "φ"}
	end := n.Interval + phi.AkkaCluster().Pause + 10*n.StdDev
	for _, c := range n.curves() {
		s := Series{Name: c.name}
		for i := range steps + 1 {
			silence := end * time.Duration(i) / steps
			if level := c.phi(silence, c.mean, c.stdDev); level <= top {
				s.X, s.Y = append(s.X, silence.Seconds()), append(s.Y, max(0, level))
			}
		}
		p.Series = append(p.Series, s)
	}
	for _, threshold := range []float64{n.Low, n.High} {
		p.Series = append(p.Series, Series{Name: fmt.Sprintf("threshold %g", threshold),
			X: []float64{0, end.Seconds()}, Y: []float64{threshold, threshold}})
	}
	p.Series = append(p.Series, Series{Name: "fixed time-out", X: []float64{n.Fixed.Seconds(), n.Fixed.Seconds()}, Y: []float64{0, top}})
	r.Plots = append(r.Plots, p)
}

// smaller demands an order of two figures, whatever lies between them.
func smaller[T cmp.Ordered](r *Report, what string, small, large T) {
	r.Checks = append(r.Checks, Check{What: what, Want: "< " + figure(large), Got: figure(small), OK: small < large})
}
