package membership

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync/atomic"
	"time"
)

// inboxSize is how many messages may wait for a node, beyond those in its socket.
const inboxSize = 1024

// node is one member of a cluster: a socket and two goroutines. One reads the socket, and the other does all the rest, so that the
// protocol needs no lock.
type node struct {
	id    int
	conn  *net.UDPConn
	peers []netip.AddrPort // by id
	cfg   Config
	rng   *rand.Rand
	clock func() time.Duration

	inbox   chan message
	freezes chan time.Duration
	crash   context.CancelFunc
	ended   chan struct{} // closed when the node is dead, or its cluster was stopped
	sent    atomic.Int64

	err error // of the goroutine that runs the protocol, and of everybody when it has ended
}

// listen reads the socket until it is closed. A dead node's is read too: its port stays its own until the cluster is stopped, so
// that no stranger gets what is sent to it.
func (n *node) listen() error {
	packet := make([]byte, 64<<10)
	for {
		size, err := n.conn.Read(packet)
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		m, err := decode(packet[:size], len(n.peers))
		if err != nil {
			continue // a stranger's, meant for whoever had this port before
		}
		select {
		case n.inbox <- m:
		case <-n.ended:
		}
	}
}

// run is the node's life. It ends with its context.
func (n *node) run(ctx context.Context, p protocol) {
	defer close(n.ended)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		if !n.cfg.TimersFirst {
			n.readMail(p)
		}
		now := n.clock()
		timer.Reset(p.act(now) - now)
		select {
		case m := <-n.inbox:
			p.receive(n.clock(), m)
		case d := <-n.freezes:
			if err := wait(ctx, d, nil); err != nil {
				return
			}
		case <-timer.C:
		case <-ctx.Done():
		}
	}
}

// readMail handles the messages that have come by now.
func (n *node) readMail(p protocol) {
	for range len(n.inbox) {
		p.receive(n.clock(), <-n.inbox)
	}
}

// send sends a message, or loses it.
func (n *node) send(to int, m message) {
	n.sent.Add(1)
	if n.rng.Float64() < n.cfg.Loss {
		return
	}
	packet, err := json.Marshal(m)
	if err == nil {
		_, err = n.conn.WriteToUDPAddrPort(packet, n.peers[to])
	}
	if err != nil && n.err == nil {
		n.err = fmt.Errorf("node %d could not send to %d: %w", n.id, to, err)
	}
}
