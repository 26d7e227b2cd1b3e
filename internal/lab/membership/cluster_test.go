package membership

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
)

// quick is a small cluster over real sockets. Its times are short, so a busy machine may make living nodes look dead; what is
// tested with it holds all the same.
func quick(p Protocol) Config {
	return Config{Protocol: p, Nodes: 4, Period: 100 * time.Millisecond, Silence: 300 * time.Millisecond,
		AckTimeout: 40 * time.Millisecond, Indirect: 3, Seed: 1}
}

func TestEveryProtocolFindsADeathOverRealSockets(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]Protocol{"heartbeats": Heartbeats, "SWIM": SWIM, "memberlist": Library} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := Run(t.Context(), quick(p), Script{Settle: 100 * time.Millisecond, Crash: 300 * time.Millisecond,
				End: 20 * time.Second, UntilKnown: true})
			if err != nil {
				t.Fatal(err)
			}
			if got := r.CalledDead(0); got != 3 || r.PacketRate <= 0 {
				t.Errorf("%d of 3 survivors called the dead node dead; %.1f packets per node and second", got, r.PacketRate)
			}
		})
	}
}

func TestNothingIsLeftOfAStoppedCluster(t *testing.T) {
	t.Parallel()
	built, err := newOwnCluster(t.Context(), quick(SWIM), Script{End: 20 * time.Second}, newLedger(4))
	if err != nil {
		t.Fatal(err)
	}
	built.crash()
	built.freeze(time.Hour)
	if err := built.stop(); err != nil { // returns when all goroutines have
		t.Error(err)
	}
	for _, n := range built.(*ownCluster).nodes {
		select {
		case <-n.ended:
		default:
			t.Errorf("node %d still runs", n.id)
		}
		if err := n.conn.SetDeadline(time.Now()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("the socket of node %d is open: %v", n.id, err)
		}
	}
}

func TestClusterEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]Protocol{"own": SWIM, "memberlist": Library} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			_, err := Run(ctx, quick(p), Script{Crash: time.Hour, End: time.Hour})
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v, want the context's", err)
			}
		})
	}
}

func TestStrangersPacketsAreRefused(t *testing.T) {
	t.Parallel()
	for _, packet := range []string{"", "\x08\x83", `{"kind":"ping","from":4}`, `{"kind":"ping","from":-1}`,
		`{"kind":"ping-req","from":1,"target":9}`, `{"kind":"ack","from":1,"news":[{"about":4}]}`} {
		if m, err := decode([]byte(packet), 4); err == nil {
			t.Errorf("%q was read as %+v", packet, m)
		}
	}
	if m, err := decode([]byte(`{"kind":"ping","from":3,"seq":8}`), 4); err != nil || m.From != 3 || m.Seq != 8 || m.Kind != ping {
		t.Errorf("a good packet was read as %+v: %v", m, err)
	}
}

// wires returns two wires and the address of the second.
func wires(t *testing.T, cfg Config) (from, to *wire, at string) {
	t.Helper()
	both := make([]*wire, 2)
	for i := range both {
		w, err := newWire(cfg, i)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := w.Shutdown(); err != nil {
				t.Error(err)
			}
		})
		both[i] = w
	}
	return both[0], both[1], both[1].udp.LocalAddr().String()
}

func TestWireDelivers(t *testing.T) {
	t.Parallel()
	from, to, at := wires(t, quick(Library))
	if _, err := from.WriteTo([]byte("hello"), at); err != nil {
		t.Fatal(err)
	}
	if p := receive(t, to.PacketCh()); string(p.Buf) != "hello" || p.From.String() != from.udp.LocalAddr().String() {
		t.Errorf("got %q from %v", p.Buf, p.From)
	}
	conn, err := from.DialTimeout(at, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(conn.Close(), receive(t, to.StreamCh()).Close()); err != nil {
		t.Error(err)
	}
}

func TestWireLosesWhatItCounts(t *testing.T) {
	t.Parallel()
	from, to, at := wires(t, quick(Library))
	from.lose(1)
	for range 10 {
		if _, err := from.WriteTo([]byte("lost"), at); err != nil {
			t.Fatal(err)
		}
	}
	from.lose(0)
	if _, err := from.WriteTo([]byte("last"), at); err != nil {
		t.Fatal(err)
	}
	if p := receive(t, to.PacketCh()); string(p.Buf) != "last" {
		t.Errorf("%q arrived", p.Buf)
	}
	if got := from.sent.Load(); got != 11 {
		t.Errorf("%d packets counted, want 11", got)
	}
}

func TestFrozenWireKeepsItsMail(t *testing.T) {
	t.Parallel()
	from, to, at := wires(t, quick(Library))
	to.gate.Lock() // as freeze does
	if _, err := from.WriteTo([]byte("while frozen"), at); err != nil {
		t.Fatal(err)
	}
	select {
	case p := <-to.PacketCh():
		t.Errorf("a frozen node got %q", p.Buf)
	case <-time.After(50 * time.Millisecond):
	}
	to.gate.Unlock()
	if p := receive(t, to.PacketCh()); string(p.Buf) != "while frozen" {
		t.Errorf("got %q", p.Buf)
	}
}

func TestDeadWireIsSilent(t *testing.T) {
	t.Parallel()
	from, to, at := wires(t, quick(Library))
	from.freeze(time.Hour) // that a dead node ends, too
	from.cut()
	if _, err := from.WriteTo([]byte("from the grave"), at); err != nil {
		t.Fatal(err)
	}
	if _, err := from.DialTimeout(at, time.Second); !errors.Is(err, errDead) {
		t.Errorf("a dead node's call: %v, want errDead", err)
	}
	select {
	case p := <-to.PacketCh():
		t.Errorf("a dead node sent %q", p.Buf)
	case <-time.After(50 * time.Millisecond):
	}
	if got := from.sent.Load(); got != 0 {
		t.Errorf("%d packets counted, want 0", got)
	}
}

// receive returns what comes out of a channel.
func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case x := <-from:
		return x
	case <-time.After(10 * time.Second):
		t.Fatal("nothing came within 10 s")
		panic("unreachable")
	}
}

var _ memberlist.Transport = (*wire)(nil)
