package membership

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

// wire is a transport for memberlist: a UDP and a TCP socket, and what an experiment does to a node. Packets are counted, and lost,
// when they are sent. A frozen node's packets and connections wait, in both directions. Its timers run on, unlike those of a
// process that stands still; but nothing that they do comes out, and that is all the others can see.
//
// Memberlist's own transport allocates 64 KiB for each packet that it reads; with a small heap that makes the garbage collector
// run all the time, and nodes late.
type wire struct {
	udp     *net.UDPConn
	tcp     *net.TCPListener
	packets chan *memberlist.Packet
	streams chan net.Conn
	sent    atomic.Int64

	gate sync.RWMutex  // held while the node is frozen
	dead chan struct{} // closed when the node is dead or shut down
	once sync.Once     // of dead
	work sync.WaitGroup

	mu   sync.Mutex
	rng  *rand.Rand
	loss float64 // the share of packets that are lost
}

// errDead: a dead node opens no connection.
var errDead = errors.New("the node is dead")

// newWire returns a wire that loses nothing as yet.
func newWire(cfg Config, id int) (*wire, error) {
	w := &wire{packets: make(chan *memberlist.Packet), streams: make(chan net.Conn), dead: make(chan struct{}),
		rng: rand.New(rand.NewPCG(cfg.Seed, uint64(id)))}
	if err := w.listen(); err != nil {
		return nil, err
	}
	w.work.Go(w.readPackets)
	w.work.Go(w.accept)
	return w, nil
}

// listen opens both sockets on one port, as memberlist wants it. It tries until one is free for both.
func (w *wire) listen() (err error) {
	const tries = 20
	for range tries {
		if w.tcp, err = net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}); err != nil {
			return err
		}
		at := w.tcp.Addr().(*net.TCPAddr)
		if w.udp, err = net.ListenUDP("udp4", &net.UDPAddr{IP: at.IP, Port: at.Port}); err == nil {
			return nil
		}
		err = errors.Join(err, w.tcp.Close())
	}
	return fmt.Errorf("no port is free for UDP and TCP: %w", err)
}

// readPackets hands packets on until the socket is closed. A dead node's are thrown away.
func (w *wire) readPackets() {
	buf := make([]byte, 64<<10)
	for {
		n, from, err := w.udp.ReadFrom(buf)
		if err != nil {
			return
		}
		p := &memberlist.Packet{Buf: bytes.Clone(buf[:n]), From: from, Timestamp: time.Now()}
		if !w.pass() {
			continue
		}
		select {
		case w.packets <- p:
		case <-w.dead:
		}
	}
}

// accept hands connections on until the socket is closed. A dead node hangs up.
func (w *wire) accept() {
	for {
		conn, err := w.tcp.Accept()
		if err != nil {
			return
		}
		if w.pass() {
			select {
			case w.streams <- conn:
				continue
			case <-w.dead:
			}
		}
		if err := conn.Close(); err != nil {
			quiet.Print(err)
		}
	}
}

// pass waits until the node isn't frozen, and says whether it is alive.
func (w *wire) pass() bool {
	w.gate.RLock()
	defer w.gate.RUnlock()
	select {
	case <-w.dead:
		return false
	default:
		return true
	}
}

// freeze lets nothing pass for a while. It does not wait.
func (w *wire) freeze(d time.Duration) {
	w.work.Go(func() {
		w.gate.Lock()
		defer w.gate.Unlock()
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-w.dead:
		}
	})
}

// cut lets nothing pass ever again. The sockets stay open, so that no stranger gets the port.
func (w *wire) cut() { w.once.Do(func() { close(w.dead) }) }

// FinalAdvertiseAddr says where the node is to be found, whatever was configured.
func (w *wire) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	at := w.udp.LocalAddr().(*net.UDPAddr)
	return at.IP, at.Port, nil
}

// PacketCh returns the packets that came in.
func (w *wire) PacketCh() <-chan *memberlist.Packet { return w.packets }

// StreamCh returns the TCP connections that came in.
func (w *wire) StreamCh() <-chan net.Conn { return w.streams }

// WriteTo sends a packet, or loses it.
func (w *wire) WriteTo(b []byte, addr string) (time.Time, error) {
	to, err := net.ResolveUDPAddr("udp4", addr)
	if err != nil {
		return time.Time{}, err
	}
	if !w.pass() {
		return time.Now(), nil
	}
	w.sent.Add(1)
	if !w.loses() {
		_, err = w.udp.WriteToUDP(b, to)
	}
	return time.Now(), err
}

func (w *wire) lose(loss float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.loss = loss
}

func (w *wire) loses() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.Float64() < w.loss
}

// DialTimeout opens a TCP connection.
func (w *wire) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	if !w.pass() {
		return nil, errDead
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return (&net.Dialer{}).DialContext(ctx, "tcp4", addr)
}

// Shutdown closes the sockets and ends what the wire has started.
func (w *wire) Shutdown() error {
	w.cut()
	err := errors.Join(w.udp.Close(), w.tcp.Close())
	w.work.Wait()
	return err
}
