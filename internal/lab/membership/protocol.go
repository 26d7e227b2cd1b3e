package membership

import (
	"math/rand/v2"
	"time"
)

// protocol is what a node does: a state machine that is called by one goroutine, with the time of the script.
type protocol interface {
	// receive handles a message.
	receive(now time.Duration, m message)
	// act does what is due, and returns when something will be due next, unless a message comes before.
	act(now time.Duration) time.Duration
}

// self is what every protocol has of its node.
type self struct {
	id  int
	cfg Config
	rng *rand.Rand
	// send sends a message to a node, and may lose it.
	send func(to int, m message)
	// declare notes that this node calls another one dead.
	declare func(about int)
}

// newProtocol returns the protocol of a node. It starts somewhere in the first period, so that not all nodes send at once.
func newProtocol(s self) protocol {
	first := time.Duration(s.rng.Int64N(int64(s.cfg.Period)))
	if s.cfg.Protocol == Heartbeats {
		return newHeartbeats(s, first)
	}
	return newSWIM(s, first)
}

// following returns when something that was due is due again. What a freeze has made it miss is not made up for.
func following(due, now, period time.Duration) time.Duration {
	if due += period; due > now {
		return due
	}
	return now + period
}
