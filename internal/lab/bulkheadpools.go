package lab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/internal/psp"
	"chargeonce/internal/rig"
)

// poolWait is how long a call waits for a place: as long as in the service.
const poolWait = 50 * time.Millisecond

// pool is a number of places that calls to all dependencies share. Nil has a place for everybody.
type pool chan struct{}

// enter takes a place, or reports that there was none.
func (p pool) enter(ctx context.Context) bool {
	if p == nil {
		return true
	}
	timer := time.NewTimer(poolWait)
	defer timer.Stop()
	select {
	case p <- struct{}{}:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

func (p pool) leave() {
	if p != nil {
		<-p
	}
}

// dependency is what came of the calls to one.
type dependency struct {
	answered  []time.Duration // when those were asked for that were answered
	took      []time.Duration // how long these took
	turnedOff int64           // calls that found no place
	timedOut  int64
}

// poolRun is what came of one way to share: the dependency that is well, and the one that hangs.
type poolRun struct{ well, hangs dependency }

// pools makes the same calls with a pool that both dependencies share, and with one of half its size for each.
func (n bulkheadNumbers) pools(ctx context.Context, r *Report) (err error) {
	dir, err := os.MkdirTemp("", "chargeonce-lab-")
	if err != nil {
		return fmt.Errorf("bulkhead: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var shared, own poolRun
	var errs [2]error
	var both sync.WaitGroup
	both.Go(func() { shared, errs[0] = n.poolRun(ctx, filepath.Join(dir, "shared"), make(pool, n.Pool), n.Calls) })
	both.Go(func() { own, errs[1] = n.poolRun(ctx, filepath.Join(dir, "own"), nil, n.Pool/2) })
	both.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	n.reportPools(r, shared, own)
	return nil
}

// poolRun calls two dependencies, each by a client with so many slots, and all calls through p.
func (n bulkheadNumbers) poolRun(ctx context.Context, path string, p pool, slots int) (out poolRun, err error) {
	asIs := func(h http.Handler) http.Handler { return h }
	err = withSim(ctx, path+"-well", asIs, func(_ *gatewaysim.Sim, well string) error {
		return withSim(ctx, path+"-hangs", asIs, func(sim *gatewaysim.Sim, hangs string) error {
			if err := sim.SetFaults(gatewaysim.Faults{Rules: []gatewaysim.Rule{{Fault: gatewaysim.Hang, Match: onCharges()}}}); err != nil {
				return err
			}
			var errs [2]error
			var both sync.WaitGroup
			both.Go(func() { out.well, errs[0] = n.call(ctx, well, p, slots) })
			both.Go(func() { out.hangs, errs[1] = n.call(ctx, hangs, p, slots) })
			both.Wait()
			return errors.Join(errs[:]...)
		})
	})
	return out, err
}

// call puts an open load on one dependency.
func (n bulkheadNumbers) call(ctx context.Context, url string, p pool, slots int) (d dependency, err error) {
	c, err := psp.New(psp.Config{BaseURL: url, APIKey: rig.PSPKey, Logger: slog.New(slog.DiscardHandler), MaxAttempts: 1,
		AttemptTimeout: n.Timeout, BreakerOff: true, Slots: slots, SlotWait: poolWait})
	if err != nil {
		return d, err
	}
	defer c.Close()
	var mu sync.Mutex
	began := time.Now()
	_, err = paced(ctx, n.Calls, everyOf(n.PerSecond), func(i int) {
		at := time.Since(began)
		res := psp.Result{Kind: psp.NotSent, NotSent: psp.BulkheadFull}
		if p.enter(ctx) {
			res = c.Charge(ctx, chargeRequest(fmt.Sprintf("call-%d", i)))
			p.leave()
		}
		took := time.Since(began) - at
		mu.Lock()
		defer mu.Unlock()
		switch {
		case res.Kind == psp.Succeeded:
			d.answered, d.took = append(d.answered, at), append(d.took, took)
		case res.Kind == psp.NotSent && res.NotSent == psp.BulkheadFull:
			d.turnedOff++
		default:
			d.timedOut++
		}
	})
	return d, err
}

func (n bulkheadNumbers) reportPools(r *Report, shared, own poolRun) {
	t := Table{Title: fmt.Sprintf("%d calls to each of two dependencies, one of which hangs; %d places", n.Calls, n.Pool),
		Columns: []string{"places", "dependency", "answered", "p99 of these", "turned away", "timed out"}}
	row := func(places, which string, d dependency) {
		p99 := ""
		if len(d.took) > 0 {
			p99 = ms(quantile(d.took, .99))
		}
		t.add(places, which, fmt.Sprint(len(d.answered)), p99, fmt.Sprint(d.turnedOff), fmt.Sprint(d.timedOut))
	}
	const together, apart = "shared", "half for each"
	row(together, "well", shared.well)
	row("", "hangs", shared.hangs)
	row(apart, "well", own.well)
	row("", "hangs", own.hangs)
	r.Tables = append(r.Tables, t)
	width := n.Timeout / 10
	r.Plots = append(r.Plots, Plot{Title: "Answered calls to the dependency that is well", X: "seconds", Y: "calls per " + figure(width),
		Series: []Series{windowSeries(together, shared.well.answered, width), windowSeries(apart, own.well.answered, width)}})
	r.atMost("calls to the dependency that is well and are turned away: fewer with places of its own", shared.well.turnedOff-1, own.well.turnedOff)
}
