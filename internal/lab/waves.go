package lab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"chargeonce/internal/psp"
	"chargeonce/internal/rig"
)

var wavesExperiment = with(Experiment{
	Name:  "waves",
	Title: "1,000 clients fail in one moment: how many come back together at each retry",
	Shows: `Every client fails at t = 0 and its every try fails at once, so nothing but the waits decides when they come back. With a
fixed wait, and with exponential backoff as well, all thousand come back in the same tenth of a second at every retry: a longer
wait moves the wave, and leaves it as high as it was. Full jitter halves it each time, as each wait is drawn from a range that is
twice as wide. The first retry is no better than the others: its whole range is one tenth of a second.`,
	Bound: time.Minute,
	Code:  []string{"internal/psp/retry.go", "internal/lab/retrystormpolicies.go"},
}, waveNumbers{Clients: 1000, Retries: 5, Fixed: time.Second, Base: 100 * time.Millisecond, Window: 100 * time.Millisecond},
	waveNumbers{Clients: 300, Retries: 5, Fixed: 400 * time.Millisecond, Base: 50 * time.Millisecond, Window: 50 * time.Millisecond}, runWaves)

// waveNumbers are the clients. The full size is the document's, which does not name its base: 100 ms gives its figures.
type waveNumbers struct {
	Clients int           `help:"Clients that fail at t = 0." max:"10000"`
	Retries int           `help:"Retries of each." min:"2" max:"10"`
	Fixed   time.Duration `help:"The fixed wait."`
	Base    time.Duration `help:"The wait before the first retry, or what it is drawn from; it doubles with each."`
	Window  time.Duration `help:"The width of a window in which calls are counted."`
}

// wave is what came of one way to wait.
type wave struct {
	name     string
	document []int             // the document's peaks, retry by retry; nil: it has none
	tries    [][]time.Duration // when all clients made their first try, their second, and so on
}

// peak is the most calls of retry n, from 1, within one window, wherever that lies.
func (w wave) peak(n int, window time.Duration) int { return densest(w.tries[n], window) }

func runWaves(ctx context.Context, _ Env, o Options, n waveNumbers) (r Report, err error) {
	c := backoffCurve{n.Base, n.Base << n.Retries}
	policies := []policy{fixedWait(n.Fixed), exponentialWait(c), fullJitter(c)}
	all := []wave{
		{document: []int{1000, 1000, 1000, 1000, 1000}},
		{document: []int{1000, 1000, 1000, 1000, 1000}},
		{document: []int{1000, 507, 243, 146, 82}},
		{name: servicesOwn.name},
	}
	errs := make([]error, len(all))
	var running sync.WaitGroup
	for i, p := range policies {
		all[i].name = p.name
		running.Go(func() { all[i].tries, errs[i] = n.byPolicy(ctx, p, o.Seed) })
	}
	running.Wait()
	all[3].tries, errs[3] = n.byService(ctx, c)
	if err := errors.Join(errs...); err != nil {
		return r, err
	}
	return n.report(all), nil
}

// byPolicy lets all clients fail, wait by a timer, and fail again.
func (n waveNumbers) byPolicy(ctx context.Context, p policy, seed uint64) ([][]time.Duration, error) {
	seen := newTries(n.Clients, n.Retries+1)
	errs := make([]error, n.Clients)
	var all sync.WaitGroup
	for i := range n.Clients {
		all.Go(func() {
			made := 0
			_, _, errs[i] = p.retry(ctx, rand.New(rand.NewPCG(seed, uint64(i))), n.Retries+1, func() (bool, error) {
				made++
				seen.add(i, made, time.Now())
				return false, nil
			})
		})
	}
	all.Wait()
	return seen.moments, errors.Join(errs...)
}

// byService has the service's PSP client do the same by its own retrying. Its attempts have failed before they begin, by a time-out
// of 1 ns, and no request comes so far as to a socket: a thousand at once would keep the machine busy for longer than a window.
func (n waveNumbers) byService(ctx context.Context, c backoffCurve) ([][]time.Duration, error) {
	seen := newTries(n.Clients, n.Retries+1)
	client, err := psp.New(psp.Config{BaseURL: "http://127.0.0.1:9", APIKey: rig.PSPKey, Logger: slog.New(seen),
		AttemptTimeout: 1, SlowAfter: 1, DialTimeout: 1, MinAttempt: 1, MaxAttempts: n.Retries + 1,
		BackoffBase: c.base, BackoffCap: c.cap, BreakerOff: true, BudgetOff: true, Slots: n.Clients})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var all sync.WaitGroup
	for i := range n.Clients {
		all.Go(func() {
			client.Charge(context.WithValue(ctx, clientNumber{}, i), chargeRequest(fmt.Sprintf("client-%d", i)))
		})
	}
	all.Wait()
	return seen.moments, ctx.Err()
}

func (n waveNumbers) report(all []wave) (r Report) {
	t := Table{Title: "Most calls within " + figure(n.Window), Columns: []string{"wait", ""}}
	when := Plot{Title: "Calls within " + figure(n.Window) + ", by when", X: "seconds", Y: "calls"}
	peaks := Plot{Title: "Most calls within " + figure(n.Window) + ", by retry", Y: "calls"}
	for k := 1; k <= n.Retries; k++ {
		t.Columns = append(t.Columns, fmt.Sprintf("retry %d", k))
		peaks.Categories = append(peaks.Categories, fmt.Sprint(k))
	}
	for _, w := range all {
		here := make([]int, n.Retries)
		for k := range here {
			here[k] = w.peak(k+1, n.Window)
			r.equal(fmt.Sprintf("%s: calls at retry %d", w.name, k+1), int64(n.Clients), int64(len(w.tries[k+1])))
		}
		if w.document != nil {
			t.add(append([]string{w.name, "document"}, countCells(w.document, n.Retries)...)...)
		}
		t.add(append([]string{w.name, "here"}, countCells(here, n.Retries)...)...)
		when.Series = append(when.Series, windowSeries(w.name, slices.Concat(w.tries...), n.Window))
		peaks.Series = append(peaks.Series, Series{Name: w.name, Y: floats(here)})
	}
	r.Tables, r.Plots = append(r.Tables, t), append(r.Plots, when, peaks)
	r.Notes = append(r.Notes,
		"The timers are real. What is called is nothing: the document's figures are those of a simulation, in which calls take no time.",
		"t = 0 is each client's own first failure, so that it does not count how long the machine takes to set all of them going.",
		"The last row is the service's own PSP client, which draws from a generator that takes no seed; the others repeat with --seed.")

	fixed, exponential := all[0].peak(n.Retries, n.Window), all[1].peak(n.Retries, n.Window)
	for _, full := range all[2:] {
		last := full.peak(n.Retries, n.Window)
		half := func(than string, most int) {
			r.atMost(fmt.Sprintf("%s: peak at retry %d, at most half of %s", full.name, n.Retries, than), int64(most/2), int64(last))
		}
		half("that at retry 1", full.peak(1, n.Window))
		half("the fixed wait's", fixed)
		half("exponential's", exponential)
	}
	return r
}

// countCells words the first n of some counts; those that are missing are left empty.
func countCells(counts []int, n int) []string {
	out := make([]string, n)
	for i, c := range counts[:min(n, len(counts))] {
		out[i] = fmt.Sprint(c)
	}
	return out
}

func floats(counts []int) []float64 {
	out := make([]float64, len(counts))
	for i, c := range counts {
		out[i] = float64(c)
	}
	return out
}
