package membership

import "time"

// heartbeats is the plain protocol: a heartbeat to every other node once in a period, and who isn't heard for too long is dead.
// A cluster of n sends n·(n−1) packets in a period.
type heartbeats struct {
	self
	heard       []time.Duration // when each node was heard last
	dead        []bool
	beat, check time.Duration // when each is due
}

func newHeartbeats(s self, first time.Duration) *heartbeats {
	return &heartbeats{self: s, heard: make([]time.Duration, s.cfg.Nodes), dead: make([]bool, s.cfg.Nodes),
		beat: first, check: first + s.cfg.Period}
}

func (h *heartbeats) receive(now time.Duration, m message) { h.heard[m.From] = now }

func (h *heartbeats) act(now time.Duration) time.Duration {
	if now >= h.beat {
		for to := range h.heard {
			if to != h.id {
				h.send(to, message{Kind: heartbeat, From: h.id})
			}
		}
		h.beat = following(h.beat, now, h.cfg.Period)
	}
	if now >= h.check {
		for id, heard := range h.heard {
			if id != h.id && !h.dead[id] && now-heard > h.cfg.Silence {
				h.dead[id] = true
				h.declare(id)
			}
		}
		h.check = following(h.check, now, h.cfg.Period/4)
	}
	return min(h.beat, h.check)
}
