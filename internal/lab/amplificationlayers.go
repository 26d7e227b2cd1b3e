package lab

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"chargeonce/internal/psp"
	"chargeonce/internal/rig"
)

// layersTimeout bounds a call through all layers, each of which waits for those below.
const layersTimeout = time.Minute

// layerBudget is how many retries a layer with a budget has, as long as nothing succeeds: the PSP client's default.
const layerBudget = 10

// layer is a service that does nothing but ask the one below, by the PSP client, for what it is asked for.
type layer struct{ below *psp.Client }

// ServeHTTP implements http.Handler.
func (l layer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if l.below.Charge(r.Context(), chargeRequest(r.Header.Get("Idempotency-Key"))).Kind != psp.Succeeded {
		http.Error(w, "the layer below failed", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusCreated)
}

// onLayers puts layers on top of the service at url, runs do with the address of the topmost, and takes them down.
func onLayers(ctx context.Context, layers int, cfg psp.Config, url string, do func(url string) error) error {
	if layers == 0 {
		return do(url)
	}
	cfg.BaseURL = url
	c, err := psp.New(cfg)
	if err != nil {
		return err
	}
	defer c.Close()
	return onLoopback(ctx, layer{c}, func(url string) error { return onLayers(ctx, layers-1, cfg, url, do) })
}

// clickCalls clicks on top of layers that all make so many tries, and counts the calls that come out at the PSP.
func (s *site) clickCalls(ctx context.Context, layers, tries, clicks int, budget bool) (calls int64, err error) {
	before, err := s.psp.settled(ctx)
	if err != nil {
		return 0, err
	}
	cfg := psp.Config{APIKey: rig.PSPKey, Logger: slog.New(slog.DiscardHandler), MaxAttempts: tries, BackoffBase: time.Millisecond,
		BackoffCap: time.Millisecond, AttemptTimeout: layersTimeout, BreakerOff: true, BudgetOff: !budget, BudgetTokens: layerBudget}
	err = onLayers(ctx, layers, cfg, s.psp.sim.URL, func(url string) error {
		cfg.BaseURL, cfg.MaxAttempts = url, 1
		user, err := psp.New(cfg)
		if err != nil {
			return err
		}
		defer user.Close()
		for i := range clicks {
			if res := user.Charge(ctx, chargeRequest(fmt.Sprintf("click-%d", i))); res.Kind != psp.Unknown {
				return fmt.Errorf("a PSP that is down said %s", res.Kind)
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	after, err := s.psp.settled(ctx)
	return charged(after) - charged(before), err
}

// multiplied is what layers make of one click when each makes so many tries: triesˡᵃʸᵉʳˢ.
func multiplied(layers, tries int) int64 {
	calls := int64(1)
	for range layers {
		calls *= int64(tries)
	}
	return calls
}

// oneClick counts the calls of one click through the layers of the documents.
func (plan amplificationNumbers) oneClick(ctx context.Context, s *site, r *Report) error {
	t := Table{Title: "One click, through layers that all retry", Columns: []string{"layers × tries", "document", "computed", "here"}}
	for _, stack := range []struct {
		layers, tries int
		document      string
	}{{3, 4, "64"}, {1, 4, "4"}, {4, 3, "3⁴ = 64"}, {5, 3, "3⁵ = 243"}} {
		name, want := fmt.Sprintf("%d × %d", stack.layers, stack.tries), multiplied(stack.layers, stack.tries)
		if want > int64(plan.Made) {
			t.add(name, stack.document, fmt.Sprint(want), "")
			continue
		}
		calls, err := s.clickCalls(ctx, stack.layers, stack.tries, 1, false)
		if err != nil {
			return err
		}
		t.add(name, stack.document, fmt.Sprint(want), fmt.Sprint(calls))
		r.equal(name+": calls at the PSP for one click", want, calls)
	}
	r.Tables = append(r.Tables, t)
	r.Notes = append(r.Notes, "3⁴ is 81: a document's 64 for 4 layers of 3 tries is a slip. 64 is 4³, 3 layers of 4 tries each, which are "+
		"3 retries each.")
	return nil
}

// budgets counts the calls of several clicks, one after another, without and with a retry budget in each layer.
func (plan amplificationNumbers) budgets(ctx context.Context, s *site, r *Report) error {
	without, err := s.clickCalls(ctx, plan.Layers, plan.Tries, plan.Clicks, false)
	if err != nil {
		return err
	}
	with, err := s.clickCalls(ctx, plan.Layers, plan.Tries, plan.Clicks, true)
	if err != nil {
		return err
	}
	t := Table{Title: fmt.Sprintf("%d clicks, through %d layers of %d tries", plan.Clicks, plan.Layers, plan.Tries),
		Columns: []string{"retry budget", "calls at the PSP", "calls per click", "at most, computed"}}
	row := func(what string, calls, most int64) {
		t.add(what, fmt.Sprint(calls), fmt.Sprintf("%.1f", float64(calls)/float64(plan.Clicks)), fmt.Sprint(most))
		r.atMost(fmt.Sprintf("%d clicks, %s: calls", plan.Clicks, what), most, calls)
	}
	row("none", without, int64(plan.Clicks)*multiplied(plan.Layers, plan.Tries))
	row(fmt.Sprintf("%d in each layer", layerBudget), with, int64(plan.Clicks+layerBudget*plan.Layers))
	r.Tables = append(r.Tables, t)
	return nil
}

// plot draws how tries multiply, as computed, with the document's figures.
func (plan amplificationNumbers) plot() Plot {
	const most = 5
	p := Plot{Title: "Calls at the PSP for one click", X: "layers", Y: "calls", LogY: true}
	line := func(name string, calls func(layers int) float64) {
		s := Series{Name: name}
		for layers := 1; layers <= most; layers++ {
			s.X, s.Y = append(s.X, float64(layers)), append(s.Y, calls(layers))
		}
		p.Series = append(p.Series, s)
	}
	for _, tries := range []int{4, 3} {
		line(fmt.Sprintf("all retry, %d tries each", tries), func(layers int) float64 { return float64(multiplied(layers, tries)) })
	}
	line(fmt.Sprintf("all retry, with a budget, mean of %d clicks", plan.Clicks), func(layers int) float64 {
		return float64(plan.Clicks+layerBudget*layers) / float64(plan.Clicks)
	})
	line("one layer retries, 4 tries", func(int) float64 { return layerTries })
	p.Series = append(p.Series, Series{Name: "document, 3 tries each", Document: true, X: []float64{4, 5}, Y: []float64{64, 243}})
	return p
}
