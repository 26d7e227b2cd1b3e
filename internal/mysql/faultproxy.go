package mysql

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
)

// FaultProxy stands between a pool and MySQL in tests and does at the network what networks do: it loses a statement before the
// server gets it, or the server's answer after the statement has taken effect. It reads the client's packets (MySQL client/server
// protocol, COM_QUERY) to find the statement; that works since the pool interpolates parameters and the connection is not encrypted.
type FaultProxy struct {
	// DSN reaches the database through the proxy.
	DSN string

	ln     net.Listener
	target string
	quit   chan struct{}
	wg     sync.WaitGroup

	mu     sync.Mutex
	faults []*Fault
	conns  map[net.Conn]struct{}
	closed bool
	cut    bool
}

// FaultKind is what happens to a statement.
type FaultKind int

// The kinds of fault.
const (
	// LoseStatement cuts the connection before the server sees the statement.
	LoseStatement FaultKind = iota
	// LoseAnswer passes the statement on, waits for the server's answer, throws it away and cuts the connection.
	LoseAnswer
	// SwallowAnswer is LoseAnswer with the connection left open and silent, so that only a time-out ends the wait.
	SwallowAnswer
	// HoldStatement cuts the client's connection at once and passes the statement on to the server only when [Fault.Deliver] is
	// closed: the late effect of a statement that everybody has given up.
	HoldStatement
	// Delay passes the statement on when [Fault.Deliver] is closed, and loses nothing.
	Delay
)

// Fault happens to the statements that contain Match, the first Skip of them excepted, Times times (0: once).
type Fault struct {
	Kind  FaultKind
	Match string
	Skip  int
	Times int
	// Deliver is needed for HoldStatement and Delay. Done, if set, is closed when the server has answered the held statement.
	Deliver <-chan struct{}
	Done    chan<- struct{}

	seen, fired int
}

// NewFaultProxy starts a proxy to dsn's server on a free port of 127.0.0.1; it ends with the test.
func NewFaultProxy(t TB, dsn string) *FaultProxy {
	t.Helper()
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatalf("fault proxy: %v", err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("fault proxy: %v", err)
	}
	p := &FaultProxy{ln: ln, target: cfg.Addr, quit: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	cfg.Addr = ln.Addr().String()
	p.DSN = cfg.FormatDSN()
	p.wg.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Inject adds a fault. The first fault that matches a statement happens to it.
func (p *FaultProxy) Inject(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.Times == 0 {
		f.Times = 1
	}
	p.faults = append(p.faults, &f)
}

// Fired returns how often faults with this Match have happened.
func (p *FaultProxy) Fired(match string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, f := range p.faults {
		if f.Match == match {
			n += f.fired
		}
	}
	return n
}

// AwaitFired returns when faults with this Match have happened n times.
func (p *FaultProxy) AwaitFired(t TB, match string, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for try := 0; p.Fired(match) < n; try++ {
		if Pause(ctx, try, 10*time.Millisecond) != nil {
			t.Fatalf("fault proxy: %q fired %d times; want %d", match, p.Fired(match), n)
		}
	}
}

func (p *FaultProxy) pick(query string) (Fault, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.faults {
		if !strings.Contains(query, f.Match) || strings.HasPrefix(query, "SET ") { // the session's set-up names READ-COMMITTED
			continue
		}
		f.seen++
		if f.seen > f.Skip && f.fired < f.Times {
			f.fired++
			return *f, true
		}
	}
	return Fault{}, false
}

func (p *FaultProxy) close() {
	close(p.quit)
	p.mu.Lock()
	p.closed = true
	for c := range p.conns {
		closeConn(c)
	}
	p.mu.Unlock()
	if err := p.ln.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		panic(fmt.Sprintf("fault proxy: %v", err))
	}
	p.wg.Wait()
}

// track makes close and Cut reach c. It reports false, and closes c, when either was faster.
func (p *FaultProxy) track(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.cut {
		closeConn(c)
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *FaultProxy) accept() {
	for {
		client, err := p.ln.Accept()
		if err != nil {
			return // closed
		}
		if p.isCut() {
			closeConn(client)
			continue
		}
		server, err := p.dial()
		if err != nil {
			closeConn(client)
			continue
		}
		if p.track(client) && p.track(server) {
			p.wg.Go(func() { p.serve(client, server) })
		}
	}
}

func (p *FaultProxy) dial() (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return (&net.Dialer{}).DialContext(ctx, "tcp", p.target)
}

// serve passes packets on in both directions until a fault or either end stops it.
func (p *FaultProxy) serve(client, server net.Conn) {
	var (
		answers = make(chan struct{}, 1)
		lose    = make(chan struct{}) // closed: what the server says from now on is thrown away
		down    sync.WaitGroup
	)
	down.Go(func() {
		defer close(answers)
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			if err != nil {
				closeConn(client)
				return
			}
			select {
			case <-lose:
				select {
				case answers <- struct{}{}:
				default:
				}
			default:
				if _, err := client.Write(buf[:n]); err != nil {
					closeConn(server)
					return
				}
			}
		}
	})
	p.up(client, server, answers, lose)
	closeConn(client)
	closeConn(server)
	down.Wait()
}

func (p *FaultProxy) up(client, server net.Conn, answers <-chan struct{}, lose chan struct{}) {
	for {
		packet, query, err := readPacket(client)
		if err != nil {
			return
		}
		f, hit := p.pick(query)
		if hit && f.Kind == LoseStatement {
			return
		}
		if hit && f.Kind == Delay {
			p.await(f.Deliver)
			hit = false
		}
		if hit {
			close(lose)
		}
		if hit && f.Kind == HoldStatement {
			closeConn(client)
			p.await(f.Deliver)
		}
		if _, err := server.Write(packet); err != nil {
			return
		}
		if !hit {
			continue
		}
		<-answers
		if f.Done != nil {
			close(f.Done)
		}
		if f.Kind == SwallowAnswer {
			if _, err := io.Copy(io.Discard, client); err != nil { // until the client gives up
				return
			}
		}
		return
	}
}

// await waits for a test's go-ahead, or for the test's end.
func (p *FaultProxy) await(deliver <-chan struct{}) {
	select {
	case <-deliver:
	case <-p.quit:
	}
}

// readPacket reads one packet and, if it is a query, its text.
func readPacket(r io.Reader) (packet []byte, query string, err error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, "", err
	}
	n := int(binary.LittleEndian.Uint32(head[:]) & 0xffffff)
	packet = make([]byte, 4+n)
	copy(packet, head[:])
	if _, err := io.ReadFull(r, packet[4:]); err != nil {
		return nil, "", err
	}
	const comQuery = 3
	if head[3] == 0 && n > 0 && packet[4] == comQuery {
		query = string(packet[5:])
	}
	return packet, query, nil
}

// closeConn closes a connection whose end, however it comes, is what was wanted.
func closeConn(c net.Conn) {
	if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return // the peer was faster
	}
}
