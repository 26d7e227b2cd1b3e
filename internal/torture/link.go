package torture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// The network's bounds. A write that nobody takes for so long is given up with its connection.
const (
	dialTimeout  = 2 * time.Second
	writeTimeout = 10 * time.Second
	acceptPause  = 10 * time.Millisecond
)

// weather is what the network does to the bytes of a link.
type weather struct {
	// refuse closes new connections at once.
	refuse bool
	// delay holds every piece of data back, in both directions. A piece that is under way arrives though its sender has left.
	delay time.Duration
	// loseUp and loseDown swallow what goes to, or comes from, the upstream, and tell nobody: a connection that is half open.
	loseUp, loseDown bool
}

// link is a TCP proxy: the network between two processes, in whatever weather. Of several upstreams each new connection takes
// the next; without any it refuses.
//
// It is our own since what is wanted is small and exact (bytes lost one way, a late delivery after the sender has left, a reset
// in place of an orderly end, no dial without a bound), and a proxy server as a library would bring its HTTP API, its router, its logger
// and its metrics into the module.
type link struct {
	ln   net.Listener
	wg   sync.WaitGroup
	stop context.CancelFunc

	mu     sync.Mutex
	to     []string
	next   int
	now    weather
	closed bool
	pairs  map[*pair]struct{}
}

// pair is one connection and its continuation.
type pair struct {
	down, up *net.TCPConn
	lossy    atomic.Bool // bytes are missing: it must not be used any more once the weather is fair
}

// newLink listens on a free port of the loopback interface.
func newLink(to ...string) (*link, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("torture: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background()) // until close
	l := &link{ln: ln, stop: stop, to: to, pairs: map[*pair]struct{}{}}
	l.wg.Go(func() { l.accept(ctx) })
	return l, nil
}

// addr is where to connect to.
func (l *link) addr() string { return l.ln.Addr().String() }

// leadTo changes the upstreams of the connections to come.
func (l *link) leadTo(to ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to = to
}

// upstream is where the next connection leads; false: nowhere.
func (l *link) upstream() (string, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now.refuse || len(l.to) == 0 {
		return "", false
	}
	l.next++
	return l.to[l.next%len(l.to)], true
}

// set changes the weather. Connections that have lost bytes are reset when it no longer loses any; when it refuses, all are cut.
func (l *link) set(w weather) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = w
	for p := range l.pairs {
		switch {
		case w.refuse:
			p.end(false)
		case p.lossy.Load() && !w.loseUp && !w.loseDown:
			p.end(true)
		}
	}
}

// reset ends every connection by a reset.
func (l *link) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := range l.pairs {
		p.end(true)
	}
}

// close ends the link and waits for its goroutines.
func (l *link) close() error {
	l.stop()
	l.mu.Lock()
	l.closed = true
	for p := range l.pairs {
		p.end(true)
	}
	l.mu.Unlock()
	err := l.ln.Close()
	l.wg.Wait()
	return err
}

func (l *link) weather() weather {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

func (l *link) accept(ctx context.Context) {
	for {
		conn, err := l.ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // the connection was gone before it was taken, or there are too many
			if pause(ctx, acceptPause) != nil {
				return
			}
			continue
		}
		l.wg.Go(func() { l.serve(ctx, conn.(*net.TCPConn)) })
	}
}

// serve carries one connection to its end.
func (l *link) serve(ctx context.Context, down *net.TCPConn) {
	p := &pair{down: down}
	defer func() { p.end(true) }()
	to, ok := l.upstream()
	if !ok {
		return
	}
	up, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", to)
	if err != nil {
		return // nobody there: whoever connects sees its connection reset
	}
	p.up = up.(*net.TCPConn)
	if !l.register(p) {
		return
	}
	defer l.forget(p)
	var both sync.WaitGroup
	both.Go(func() { l.carry(ctx, p, p.down, p.up, func(w weather) bool { return w.loseUp }) })
	both.Go(func() { l.carry(ctx, p, p.up, p.down, func(w weather) bool { return w.loseDown }) })
	both.Wait()
}

func (l *link) register(p *pair) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.now.refuse {
		return false
	}
	l.pairs[p] = struct{}{}
	return true
}

func (l *link) forget(p *pair) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pairs, p)
}

// carry copies one direction until its end, which it passes on: an orderly one in order, any other by a reset.
func (l *link) carry(ctx context.Context, p *pair, from, to *net.TCPConn, loses func(weather) bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		w := l.weather()
		switch {
		case n == 0:
		case loses(w) || p.lossy.Load():
			p.lossy.Store(true)
		default:
			if werr := errors.Join(pause(ctx, w.delay), to.SetWriteDeadline(time.Now().Add(writeTimeout)), writeAll(to, buf[:n])); werr != nil {
				p.end(true)
				return
			}
		}
		if errors.Is(err, io.EOF) && !p.lossy.Load() {
			err = to.CloseWrite()
			if err == nil {
				return // the other direction may go on
			}
		}
		if err != nil {
			p.end(true)
			return
		}
	}
}

func writeAll(to io.Writer, b []byte) error {
	_, err := to.Write(b)
	return err
}

// end closes both sides; hard: by a reset. A side that is closed already is as it should be.
func (p *pair) end(hard bool) {
	for _, c := range []*net.TCPConn{p.down, p.up} {
		if c == nil {
			continue
		}
		if hard {
			if err := c.SetLinger(0); err != nil {
				continue // closed
			}
		}
		if err := c.Close(); err != nil {
			continue // closed
		}
	}
}

// The ports that processes are given which come back on theirs: below those that the system hands out to outgoing connections, one of
// which could otherwise take the port of a process that is away.
const (
	lowestPort  = 20_000
	highestPort = 32_000
	portTries   = 100
)

// freeAddress finds such a port that nobody listens on now.
func freeAddress() (string, error) {
	var err error
	for range portTries {
		address := fmt.Sprintf("127.0.0.1:%d", lowestPort+rand.IntN(highestPort-lowestPort))
		var ln net.Listener
		if ln, err = net.Listen("tcp", address); err == nil {
			return address, ln.Close()
		}
	}
	return "", fmt.Errorf("torture: no free port: %w", err)
}
