package lab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	gatewaysim "chargeonce/gateway-sim"
)

var retryStormExperiment = with(Experiment{
	Name:  "retry-storm",
	Title: "500 clients meet a PSP that is down for 1 s and weak afterwards: how they wait decides how soon they get through",
	Shows: `All clients fail in the same moment. If they wait by the same rule they come back in the same moment as well, and a PSP
that can serve thirty of them sends the others away, to meet again: backing off moves the wave and does not make it lower. Who
retries at once has spent all tries before the PSP is back. Drawing the wait at random spreads the clients out: the load stays
near what the PSP can bear, and all get through, with fewer requests. How much of the wait is drawn matters: full jitter draws
all of it, equal jitter half, and ± 20 % leaves much of the wave standing. "Our client" is the service's own
PSP client with its own full jitter; the others send bare requests. All requests and all charges are real.`,
	Bound: 3 * time.Minute,
	Code: []string{"internal/psp/retry.go", "internal/lab/retrystormpolicies.go", "internal/lab/retrystormclients.go",
		"internal/lab/retrystormserver.go"},
}, stormNumbers{Clients: 500, Outage: time.Second, PerSecond: 300, Burst: 30, Tries: 10, Fixed: 500 * time.Millisecond,
	Base: 100 * time.Millisecond, Cap: 3200 * time.Millisecond, SideBySide: 2,
}, stormNumbers{Clients: 60, Outage: 250 * time.Millisecond, PerSecond: 200, Burst: 5, Tries: 8, Fixed: 125 * time.Millisecond,
	Base: 25 * time.Millisecond, Cap: 800 * time.Millisecond, SideBySide: 8,
}, runStorm)

// stormNumbers are the clients and the PSP. The full size is the document's.
type stormNumbers struct {
	Clients    int           `help:"Clients that all ask for a charge in the same moment." max:"5000"`
	Outage     time.Duration `help:"How long the PSP answers 503 to everything."`
	PerSecond  int           `help:"Requests per second that the PSP serves afterwards."`
	Burst      int           `help:"Requests that it serves in one moment when it had time to rest."`
	Tries      int           `help:"Tries of each client, the first included." max:"100"`
	Fixed      time.Duration `help:"The fixed wait."`
	Base       time.Duration `help:"The wait after the first failure, or what it is drawn from; it doubles with each. Requests are counted in windows of this width."`
	Cap        time.Duration `help:"Where the doubling ends."`
	SideBySide int           `help:"Policies that are tried at the same time, each with a PSP of its own." max:"8"`
}

// Validate checks what the tags cannot say.
func (n stormNumbers) Validate() error {
	if n.Base < time.Millisecond || n.Cap < n.Base {
		return fmt.Errorf("base %v and cap %v: want 1ms ≤ base ≤ cap", n.Base, n.Cap)
	}
	return nil
}

// stormRun is what came of one policy.
type stormRun struct {
	policy
	done     []time.Duration // when each client that got through did, in order
	requests int64           // as the clients know
	charges  int64           // at the PSP
	arrivals []time.Duration // of requests, at the PSP
}

func runStorm(ctx context.Context, _ Env, o Options, n stormNumbers) (r Report, err error) {
	dir, err := os.MkdirTemp("", "chargeonce-lab-")
	if err != nil {
		return r, fmt.Errorf("retry-storm: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c := backoffCurve{n.Base, n.Cap}
	policies := []policy{noWait(), fixedWait(n.Fixed), exponentialWait(c), fullJitter(c), servicesOwn, decorrelatedJitter(c),
		equalJitter(c), plusMinus20(c)}
	runs := make([]stormRun, len(policies))
	err = crowd(ctx, len(policies), n.SideBySide, func(ctx context.Context, i int) error {
		var err error
		if runs[i], err = n.run(ctx, policies[i], filepath.Join(dir, fmt.Sprint(i)), o.Seed); err != nil {
			return fmt.Errorf("%s: %w", policies[i].name, err)
		}
		return nil
	})
	if err != nil {
		return r, err
	}
	return n.report(runs), nil
}

// run sends the clients to a PSP that keeps its charges in the file path.
func (n stormNumbers) run(ctx context.Context, p policy, path string, seed uint64) (out stormRun, err error) {
	var weak *weakPSP
	behind := func(h http.Handler) http.Handler {
		weak = newWeakPSP(h, n)
		return weak
	}
	err = withSim(ctx, path, behind, func(sim *gatewaysim.Sim, url string) (err error) {
		var all buyers
		if p.wait == nil {
			all, err = newServiceBuyers(ctx, url, n)
		} else {
			all, err = newBareBuyers(ctx, url, p, n, seed)
		}
		if err != nil {
			return err
		}
		weak.start()
		out, err = n.buyAll(ctx, all)
		out.policy, out.arrivals, out.charges = p, weak.asked(), sim.Stats().Charges
		return errors.Join(err, all.close())
	})
	return out, err
}

// buyAll lets all clients go at once and waits for them.
func (n stormNumbers) buyAll(ctx context.Context, all buyers) (out stormRun, err error) {
	var mu sync.Mutex
	var errs []error
	var clients sync.WaitGroup
	began := time.Now()
	for i := range n.Clients {
		clients.Go(func() {
			sent, charged, err := all.buy(ctx, i)
			at := time.Since(began)
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
			out.requests += int64(sent)
			if charged {
				out.done = append(out.done, at)
			}
		})
	}
	clients.Wait()
	slices.Sort(out.done)
	return out, errors.Join(errs...)
}
