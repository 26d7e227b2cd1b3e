package torture

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// ErrViolated: a promise was not kept.
var ErrViolated = errors.New("a promise was not kept")

// Run attacks the service, lets it heal, and checks. It returns what it found, and an error when it could not be done; a violation
// is no error of Run's. What it started has ended when it returns.
func Run(ctx context.Context, cfg Config) (res *Result, err error) {
	cfg, err = cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s, err := setUp(ctx, cfg)
	defer func() {
		keep := cfg.Keep
		switch {
		case res != nil && (keep || !res.OK()):
			keep, res.Logs = true, s.dir
		case err != nil && ctx.Err() == nil:
			keep, err = true, fmt.Errorf("%w (logs: %s)", err, s.dir)
		}
		err = errors.Join(err, s.tearDown(context.WithoutCancel(ctx), keep))
	}()
	if err != nil {
		return nil, err
	}
	return attackAndCheck(ctx, s)
}

func attackAndCheck(ctx context.Context, s *site) (*Result, error) {
	before, err := takeBaseline(ctx, s)
	if err != nil {
		return nil, err
	}
	h, w := newHistory(), &watcher{site: s}
	n := &nemesis{site: s, began: time.Now(), out: s.cfg.Out}
	shop, err := openShop(ctx, s, h)
	if err != nil {
		return nil, err
	}
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	var watch sync.WaitGroup
	watch.Go(func() { w.run(watching) })

	attack(ctx, s, n)
	var found verdicts
	found.take(heal(ctx, s)...)
	if err := shop.close(s.cfg.pace.learn); err != nil {
		return nil, fmt.Errorf("torture: close the doors: %w", err)
	}
	quiet, err := awaitQuiet(ctx, s)
	stopWatching()
	watch.Wait()
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("torture: interrupted: %w", err)
	}

	goroutines, leaked := before.checkGoroutines(ctx, s)
	found.take(leaked...)
	found.take(endAll(ctx, s.servers, s.loops)...)
	found.take(checkConnections(ctx, s)...)
	checking, cancel := context.WithTimeout(ctx, checkBound)
	defer cancel()
	b, err := readBooks(checking, s, h)
	if err != nil {
		return nil, err
	}
	for _, snap := range snapshots {
		last, err := w.look(checking, snap, snap.query)
		if err != nil {
			return nil, err
		}
		found.take(last...)
	}
	found.take(endOne(ctx, &s.psp.process)...)
	found.take(n.wrong...)
	found.take(w.found...)
	found.take(h.alarms...)
	found.take(b.check()...)
	return newResult(s, n, h, w, b, found.found, quiet, before.goroutines, goroutines), nil
}

// attack strikes until the time is over, and returns when all strikes have healed.
func attack(ctx context.Context, s *site, n *nemesis) {
	cards := s.cfg.cards
	if cards == nil {
		kinds := s.cfg.Faults
		if len(kinds) == 0 {
			kinds = slices.Sorted(maps.Keys(faultKinds))
		}
		kinds = slices.DeleteFunc(slices.Clone(kinds), func(name string) bool { return faultKinds[name].needsMySQL && s.mysql == nil })
		cards = schedule(s.cfg.Seed, kinds, s.cfg.Duration)
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Duration)
	defer cancel()
	n.run(ctx, cards)
	<-ctx.Done()
}

// heal makes everything work again, and says what ended by itself though nobody had killed it.
func heal(ctx context.Context, s *site) (found []violation) {
	ctx, cancel := context.WithTimeout(ctx, healBound)
	defer cancel()
	for _, m := range s.members {
		m.toDB.set(weather{})
		m.toPSP.set(weather{})
	}
	s.hooks.set(weather{})
	for _, p := range s.processes() {
		if p.alive() {
			continue
		}
		found = append(found, violation{text: fmt.Sprintf("%s had ended by itself; see its log", p.name)})
		if err := p.bring(ctx); err != nil {
			found = append(found, violation{text: err.Error()})
		}
	}
	return found
}

// endAll asks the servers and the reconcile loops to end, all at once.
func endAll(ctx context.Context, servers []*server, loops []*process) (found []violation) {
	all := slices.Clone(loops)
	for _, srv := range servers {
		all = append(all, &srv.process)
	}
	results := make([][]violation, len(all))
	var ending sync.WaitGroup
	for i, p := range all {
		ending.Go(func() { results[i] = endOne(ctx, p) })
	}
	ending.Wait()
	return slices.Concat(results...)
}

func endOne(ctx context.Context, p *process) []violation {
	if err := p.stop(ctx, drainBound); err != nil {
		return []violation{{text: "at the end: " + err.Error()}}
	}
	return nil
}

// shop is where the buyers are.
type shop struct {
	doors  *doors
	closed chan struct{}
	stop   context.CancelFunc
	buyers sync.WaitGroup
	h      *history
}

func openShop(ctx context.Context, s *site, h *history) (*shop, error) {
	d, err := openDoors(s)
	if err != nil {
		return nil, err
	}
	buying, stop := context.WithCancel(ctx)
	sh := &shop{doors: d, closed: make(chan struct{}), stop: stop, h: h}
	for id := range s.cfg.Clients {
		b := &buyer{
			id: id, user: 1 + int64(id%userCount), doors: d, h: h, guard: s.cfg.Guard, closed: sh.closed,
			dice: rand.New(rand.NewPCG(s.cfg.Seed, 1000+uint64(id))),
		}
		sh.buyers.Go(func() { b.run(buying) })
	}
	return sh, nil
}

// close lets the buyers end what they have begun, within patience, and closes the doors behind them.
func (sh *shop) close(patience time.Duration) error {
	close(sh.closed)
	bound := time.AfterFunc(patience, sh.stop)
	defer bound.Stop()
	defer sh.stop()
	sh.buyers.Wait()
	return sh.doors.close()
}
