package lab

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/internal/psp"
	"chargeonce/internal/rig"
)

var amplificationExperiment = with(Experiment{
	Name:  "amplification",
	Title: "A PSP that is down: how many calls it gets for one click, through layers that all retry and through ours, and in an outage",
	Shows: `Where every layer retries, tries multiply: 3 layers of 4 tries make 64 calls out of one click, when the PSP can bear it
least. A budget in each layer ends that after the first few clicks, as a budget refills with successes alone. Here one layer
retries, 4 attempts at most, out of such a budget; and the breaker ends even the first attempts. So a request costs at most 4
calls, and an outage hardly more calls than there are requests, or with the breaker one now and then.`,
	Proof: true,
	Bound: 3 * time.Minute,
	Code:  []string{"internal/psp/budget.go", "internal/psp/retry.go", "internal/lab/amplificationlayers.go"},
}, amplificationNumbers{Requests: 1500, PerSecond: 250, Layers: 3, Tries: 4, Clicks: 10, Made: 243},
	amplificationNumbers{Requests: 100, PerSecond: 50, Layers: 3, Tries: 4, Clicks: 3, Made: 64}, runAmplification)

// layerTries is how often each layer tries: the PSP client's default, and the client that comes back.
const layerTries = 4

// amplificationNumbers are the load of the outage, and the layers that retry.
type amplificationNumbers struct {
	Requests  int `help:"Purchases in the outage."`
	PerSecond int `help:"Purchases per second in the outage."`
	Layers    int `help:"Layers that all retry, without and with a budget." max:"5"`
	Tries     int `help:"Tries of each of these layers, the first included." max:"5"`
	Clicks    int `help:"Clicks that these layers get." max:"1000"`
	Made      int `help:"A click that makes more calls than this is computed and not made." max:"10000"`
}

func runAmplification(ctx context.Context, env Env, _ Options, n amplificationNumbers) (r Report, err error) {
	err = env.withService(ctx, func(s *site) error {
		if err := s.psp.fresh(ctx, gatewaysim.Faults{Rules: []gatewaysim.Rule{{Fault: gatewaysim.ErrorAnswer}}}); err != nil {
			return err
		}
		return errors.Join(n.oneClick(ctx, s, &r), n.budgets(ctx, s, &r), oneRequest(ctx, s, &r), n.outage(ctx, s, &r))
	})
	r.Plots = append(r.Plots, n.plot())
	return r, err
}

// oneRequest counts the calls that one click of a user's makes.
func oneRequest(ctx context.Context, s *site, r *Report) error {
	t := Table{Title: "One purchase, PSP down (answers 503)", Columns: []string{"", "calls at the PSP", "were every try made"}}
	// Each server is a new one: its breaker is closed and its budget full.
	for _, tries := range []int{1, layerTries} {
		at, err := s.rig.StartServer(ctx, fmt.Sprintf("server-%d", tries), s.psp.sim)
		if err != nil {
			return err
		}
		calls, err := s.purchaseCalls(ctx, at, tries)
		if err != nil {
			return err
		}
		what := "one request through the service"
		if tries > 1 {
			what = fmt.Sprintf("a client that sends %d times, breaker and budget on", tries)
		}
		most := layerTries * int64(tries)
		t.add(what, fmt.Sprint(calls), fmt.Sprint(most))
		r.atMost(what+": calls", most, calls)
	}
	calls, err := s.chargeCalls(ctx, psp.Config{BreakerOff: true, BudgetOff: true})
	if err != nil {
		return err
	}
	what := fmt.Sprintf("a client that sends %d times, breaker and budget off", layerTries)
	t.add(what, fmt.Sprint(calls), fmt.Sprint(layerTries*layerTries))
	r.Tables = append(r.Tables, t)
	r.atMost(what+": calls", layerTries*layerTries, calls)
	return nil
}

// purchaseCalls sends one purchase to a server, up to tries times, and counts what the PSP got of it.
func (s *site) purchaseCalls(ctx context.Context, at *rig.Server, tries int) (int64, error) {
	before, err := s.psp.settled(ctx)
	if err != nil {
		return 0, err
	}
	cfg := s.overREST(at)
	cfg.MaxTries = tries
	if got := s.pay(ctx, cfg, newIntent("amplification-"+at.Name)); got.err != nil {
		return 0, got.err
	}
	after, err := s.psp.settled(ctx)
	return charged(after) - charged(before), err
}

// chargeCalls asks a client of the PSP for one charge as often as a client of the service would, and counts the calls.
func (s *site) chargeCalls(ctx context.Context, cfg psp.Config) (int64, error) {
	before, err := s.psp.settled(ctx)
	if err != nil {
		return 0, err
	}
	c, _, err := s.pspClient(cfg)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	for range layerTries {
		if res := c.Charge(ctx, chargeRequest("amplification")); res.Kind != psp.Unknown {
			return 0, fmt.Errorf("a PSP that is down said %s", res.Kind)
		}
	}
	after, err := s.psp.settled(ctx)
	return charged(after) - charged(before), err
}

// outage puts the same open load on three clients at once, and tells their calls apart by their keys.
func (plan amplificationNumbers) outage(ctx context.Context, s *site, r *Report) error {
	n := int64(plan.Requests)
	ways := []struct {
		name, prefix string
		cfg          psp.Config
		most         int64
	}{
		{"breaker and budget", "both", psp.Config{}, n*11/10 + 10},
		{"budget alone", "budget", psp.Config{BreakerOff: true}, n + 10},
		{"neither", "neither", psp.Config{BreakerOff: true, BudgetOff: true, Slots: 1000}, n * layerTries},
	}
	loads, errs := make([]load, len(ways)), make([]error, len(ways))
	var all sync.WaitGroup
	for i, w := range ways {
		all.Go(func() {
			c, _, err := s.pspClient(w.cfg)
			if err != nil {
				errs[i] = err
				return
			}
			defer c.Close()
			loads[i], errs[i] = charge(ctx, c, w.prefix, plan.Requests, everyOf(plan.PerSecond), 10*time.Second)
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	stats, err := s.psp.settled(ctx)
	if err != nil {
		return err
	}
	t := Table{Title: fmt.Sprintf("An outage of %d s at %d requests/s", plan.Requests/plan.PerSecond, plan.PerSecond),
		Columns: []string{"", "requests", "calls at the PSP", "calls per request"}}
	for i, w := range ways {
		var calls int64
		for key, k := range stats.Keys {
			if strings.HasPrefix(key, w.prefix+"-") {
				calls += k.Posts
			}
		}
		t.add(w.name, fmt.Sprint(n), fmt.Sprint(calls), fmt.Sprintf("%.2f", float64(calls)/float64(n)))
		r.equal(w.name+": calls that the client knows of", calls, loads[i].sent())
		r.atMost(w.name+": calls", w.most, calls)
	}
	r.Tables = append(r.Tables, t)
	return nil
}
