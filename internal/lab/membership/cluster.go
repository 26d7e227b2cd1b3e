package membership

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"
)

// linger is how long after a script's end a socket is read at most, should the cluster not be stopped.
const linger = 10 * time.Second

// ownCluster is a cluster whose nodes are ours.
type ownCluster struct {
	nodes  []*node
	cancel context.CancelFunc

	lives     sync.WaitGroup
	listeners sync.WaitGroup
	listenErr []error // by node; of everybody when the listeners have ended
}

// newOwnCluster opens all sockets, and starts the nodes when each knows where the others are.
func newOwnCluster(ctx context.Context, cfg Config, s Script, l *ledger) (cluster, error) {
	c := &ownCluster{listenErr: make([]error, cfg.Nodes)}
	ctx, c.cancel = context.WithCancel(ctx)
	peers := make([]netip.AddrPort, cfg.Nodes)
	for id := range cfg.Nodes {
		conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			return nil, errors.Join(err, c.stop())
		}
		n := &node{id: id, conn: conn, peers: peers, cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, uint64(id))), clock: l.now,
			inbox: make(chan message, inboxSize), freezes: make(chan time.Duration, 1), ended: make(chan struct{})}
		c.nodes = append(c.nodes, n)
		peers[id] = conn.LocalAddr().(*net.UDPAddr).AddrPort()
		if err := conn.SetReadDeadline(time.Now().Add(s.End + linger)); err != nil {
			return nil, errors.Join(err, c.stop())
		}
	}
	l.start()
	for _, n := range c.nodes {
		var life context.Context
		life, n.crash = context.WithCancel(ctx)
		p := newProtocol(self{id: n.id, cfg: cfg, rng: n.rng, send: n.send, declare: func(about int) { l.dead(n.id, about) }})
		c.listeners.Go(func() { c.listenErr[n.id] = n.listen() })
		c.lives.Go(func() { n.run(life, p) })
	}
	return c, nil
}

func (c *ownCluster) packets() (sum int64) {
	for _, n := range c.nodes {
		sum += n.sent.Load()
	}
	return sum
}

func (c *ownCluster) crash() { c.nodes[0].crash() }

func (c *ownCluster) freeze(d time.Duration) { c.nodes[len(c.nodes)-1].freezes <- d }

func (c *ownCluster) stop() error {
	c.cancel()
	c.lives.Wait() // sockets are closed when nobody writes to them any more
	var errs []error
	for _, n := range c.nodes {
		errs = append(errs, n.err, n.conn.Close())
	}
	c.listeners.Wait()
	return errors.Join(append(errs, c.listenErr...)...)
}
