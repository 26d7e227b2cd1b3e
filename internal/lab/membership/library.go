package membership

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// libraryCluster is a cluster of memberlist's.
type libraryCluster struct {
	lists []*memberlist.Memberlist
	wires []*wire
}

// newLibraryCluster starts memberlist's nodes, and waits until they have got to know each other.
func newLibraryCluster(ctx context.Context, cfg Config, s Script, l *ledger) (cluster, error) {
	c := &libraryCluster{}
	label := fmt.Sprintf("lab-%p", c) // tells apart clusters of one process
	for id := range cfg.Nodes {
		w, err := newWire(cfg, id)
		if err != nil {
			return nil, errors.Join(err, c.stop())
		}
		c.wires = append(c.wires, w)
		list, err := memberlist.Create(libraryConfig(cfg, id, label, w, l))
		if err != nil {
			return nil, errors.Join(err, w.Shutdown(), c.stop())
		}
		c.lists = append(c.lists, list)
	}
	// Twice: when all have told the first node of themselves, it can tell each of all others. Gossip alone may miss some.
	for range 2 {
		if err := c.each(c.join); err != nil {
			return nil, errors.Join(ErrIncomplete, err, c.stop())
		}
	}
	if err := c.settle(ctx, cfg.Period, s.End+linger); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	for _, w := range c.wires {
		w.lose(cfg.Loss)
	}
	l.start()
	return c, nil
}

// join makes a node and the first one tell each other whom they know.
func (c *libraryCluster) join(list *memberlist.Memberlist) error {
	_, err := list.Join([]string{c.lists[0].LocalNode().Address()})
	return err
}

// each does something to all nodes at once.
func (c *libraryCluster) each(do func(*memberlist.Memberlist) error) error {
	errs := make([]error, len(c.lists))
	var all sync.WaitGroup
	for i, list := range c.lists {
		all.Go(func() { errs[i] = do(list) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// libraryConfig is memberlist's for a local network, but for what an experiment sets for all protocols alike.
func libraryConfig(cfg Config, id int, label string, w *wire, l *ledger) *memberlist.Config {
	c := memberlist.DefaultLANConfig()
	c.Name, c.Label, c.Transport = nodeName(id), label, w
	c.ProbeInterval, c.ProbeTimeout, c.IndirectChecks = cfg.Period, cfg.AckTimeout, cfg.Indirect
	c.GossipInterval = cfg.Period
	c.EnableCompression = false // on a loopback interface it saves nothing
	c.Events = verdicts{by: id, ledger: l}
	c.Logger = quiet
	return c
}

var quiet = log.New(io.Discard, "", 0)

// settle waits until each node knows all others, and until they have told each other so: two periods in which they send about
// as much as they always do, a ping and an ack each.
func (c *libraryCluster) settle(ctx context.Context, period, most time.Duration) error {
	usual := int64(2 * 2 * len(c.lists))
	for deadline := time.Now().Add(most); time.Now().Before(deadline); {
		before := c.packets()
		if err := wait(ctx, 2*period, nil); err != nil {
			return err
		}
		if c.complete() && c.packets()-before <= usual*5/4 {
			return nil
		}
	}
	return fmt.Errorf("%w: %d nodes, %v", ErrIncomplete, len(c.lists), most)
}

func (c *libraryCluster) complete() bool {
	for _, list := range c.lists {
		if list.NumMembers() != len(c.lists) {
			return false
		}
	}
	return true
}

func (c *libraryCluster) packets() (sum int64) {
	for _, w := range c.wires {
		sum += w.sent.Load()
	}
	return sum
}

func (c *libraryCluster) crash() { c.wires[0].cut() }

func (c *libraryCluster) freeze(d time.Duration) { c.wires[len(c.wires)-1].freeze(d) }

// stop shuts all nodes down at once: none is to call another dead for that.
func (c *libraryCluster) stop() error { return c.each((*memberlist.Memberlist).Shutdown) }

func nodeName(id int) string { return fmt.Sprintf("node-%d", id) }

// verdicts passes on what a node of memberlist's says of the others.
type verdicts struct {
	by     int
	ledger *ledger
}

func (v verdicts) NotifyLeave(n *memberlist.Node) {
	var about int
	if _, err := fmt.Sscanf(n.Name, "node-%d", &about); err == nil {
		v.ledger.dead(v.by, about)
	}
}

func (verdicts) NotifyJoin(*memberlist.Node)   {}
func (verdicts) NotifyUpdate(*memberlist.Node) {}
