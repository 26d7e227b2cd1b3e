// Package membership lets clusters watch themselves, over real UDP sockets on the loopback interface, by one of three protocols:
// heartbeats to all, SWIM with or without suspicion, and hashicorp/memberlist. A [Script] says what happens to a cluster, and a
// [Result] what came of it.
//
// heartbeats.go and swim.go are the protocols, as state machines without clock or socket; node.go gives them both. members.go has
// SWIM's rules of what news overrides what, gossip.go how news travels, library.go memberlist under the same conditions, and
// simulation.go lets our protocols run in virtual time instead.
//
// The nodes share one machine and one process: the network hardly delays anything, and figures are for comparing protocols alone.
package membership

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Protocol is how the nodes of a cluster find out who is alive.
type Protocol int

// The protocols.
const (
	// Heartbeats: each node sends a heartbeat to each other node once in a period.
	Heartbeats Protocol = iota
	// SWIM: each node pings one other node in a period, and news spreads on the packets that are sent anyway (Das, Gupta and
	// Motivala, 2002).
	SWIM
	// Library is hashicorp/memberlist, which is SWIM with the Lifeguard extensions: it adds gossip packets of its own, TCP where
	// UDP fails, and patience with others for a node that has trouble itself.
	Library
)

// Config is a cluster and its protocol.
type Config struct {
	Protocol Protocol
	Nodes    int
	// Period is how often a node sends its heartbeats, or pings one other node.
	Period time.Duration
	// Silence is how long a node may not be heard before it is called dead. Heartbeats only.
	Silence time.Duration
	// AckTimeout is how long SWIM waits for an ack before it asks others to ping the node as well. Shorter than the period.
	AckTimeout time.Duration
	// Indirect is how many others are asked; 0: none. The papers call it k.
	Indirect int
	// Suspicion is how long a node that failed a probe may refute it before it is called dead; 0: it is called dead at once.
	// Memberlist has its own rule for it.
	Suspicion time.Duration
	// TimersFirst: after a freeze, a node does what was due before it reads the mail that came meanwhile. Not for memberlist.
	TimersFirst bool
	// Loss is the share of packets that never leave their sender.
	Loss float64
	// Seed decides loss, the order of pings and who begins when; not how the machine interleaves the nodes, nor what memberlist
	// draws.
	Seed uint64
}

// Script is what happens to a cluster, counted from when it is complete. The first node dies, and the last may freeze.
type Script struct {
	// Packets are counted from Settle until Crash.
	Settle, Crash time.Duration
	// Freeze and FreezeFor say when the last node stops and for how long, as in a long garbage collection: it neither sends nor
	// handles anything, but packets still reach its socket. FreezeFor 0: it doesn't.
	Freeze, FreezeFor time.Duration
	// End is when the cluster is shut down.
	End time.Duration
	// UntilKnown ends earlier, when all survivors know of the crash.
	UntilKnown bool
}

// ErrIncomplete: the nodes of a cluster could not get to know each other in time, because the machine was too busy with other
// things.
var ErrIncomplete = errors.New("the cluster never was complete")

// Run builds a cluster, lets the script happen to it, and takes it down again: when it returns, nothing of it is left but timers
// of memberlist's that find it closed. The error may be [ErrIncomplete], a socket's or the
// context's.
func Run(ctx context.Context, cfg Config, s Script) (Result, error) {
	if err := check(cfg, s); err != nil {
		return Result{}, err
	}
	l := newLedger(cfg.Nodes)
	build := newOwnCluster
	if cfg.Protocol == Library {
		build = newLibraryCluster
	}
	c, err := build(ctx, cfg, s, l)
	if err != nil {
		return Result{}, fmt.Errorf("build a cluster of %d: %w", cfg.Nodes, err)
	}
	late := l.pulse()
	r, err := play(ctx, c, s, l)
	r.Nodes, r.Late, r.Verdicts = cfg.Nodes, late(), l.list() // before the nodes are stopped, one after another
	return r, errors.Join(err, c.stop())
}

func check(cfg Config, s Script) error {
	if cfg.Nodes < 2 || cfg.Period <= 0 || s.Settle >= s.Crash || s.Crash > s.End {
		return fmt.Errorf("a cluster of %d nodes with period %v can't play %+v", cfg.Nodes, cfg.Period, s)
	}
	return nil
}

// cluster is what a script happens to.
type cluster interface {
	// packets returns how many packets all nodes have sent so far, those included that were lost.
	packets() int64
	// crash silences the first node for good, freeze the last one for a while. Neither waits.
	crash()
	freeze(time.Duration)
	// stop ends all nodes and waits for them.
	stop() error
}

// play lets the script happen. It began when the cluster was complete.
func play(ctx context.Context, c cluster, s Script, l *ledger) (r Result, err error) {
	if err := l.until(ctx, s.Settle); err != nil {
		return r, err
	}
	before, from := c.packets(), l.now()
	if err := l.until(ctx, s.Crash); err != nil {
		return r, err
	}
	r.CrashedAt = l.crashed()
	r.PacketRate = float64(c.packets()-before) / (r.CrashedAt - from).Seconds() / float64(l.nodes)
	c.crash()
	if s.FreezeFor > 0 {
		if err := l.until(ctx, s.Freeze); err != nil {
			return r, err
		}
		c.freeze(s.FreezeFor)
	}
	if s.UntilKnown {
		return r, l.untilKnown(ctx, s.End)
	}
	return r, l.until(ctx, s.End)
}
