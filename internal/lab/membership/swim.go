package membership

import "time"

// swim is SWIM: in each period a node pings one other; if no ack comes, it has others ping it as well; if none comes until the
// period ends, the node is dead or, with suspicion, suspected. A cluster of n sends about 2·n packets in a period.
type swim struct {
	self
	members     []member // by id; this node's own holds nothing but its incarnation
	gossip      gossip
	round       []int // who is still to be pinged before anybody is again
	probe       probe
	relays      map[uint64]relay // by the sequence number of the ping that was sent for another node
	seq         uint64
	periodStart time.Duration // of the next period
}

// probe is the question whether one node is alive.
type probe struct {
	target  int
	seq     uint64
	askAt   time.Duration // when others are asked for help
	pending bool          // not acked yet
	asked   bool
}

// relay is a ping that was sent for another node.
type relay struct {
	origin int
	seq    uint64 // of that node's probe
	until  time.Duration
}

func newSWIM(s self, first time.Duration) *swim {
	return &swim{self: s, members: make([]member, s.cfg.Nodes), gossip: newGossip(s.cfg.Nodes),
		relays: map[uint64]relay{}, periodStart: first}
}

func (s *swim) act(now time.Duration) time.Duration {
	if p := &s.probe; p.pending && !p.asked && now >= p.askAt {
		p.asked = true
		s.askOthers()
	}
	if now >= s.periodStart {
		if s.probe.pending {
			s.failed(now, s.probe.target)
		}
		s.forgetRelays(now)
		s.periodStart = following(s.periodStart, now, s.cfg.Period)
		s.ping(now)
	}
	s.confirm(now)
	return s.nextDue()
}

// nextDue returns when something will be due.
func (s *swim) nextDue() time.Duration {
	due := s.periodStart
	if s.probe.pending && !s.probe.asked {
		due = min(due, s.probe.askAt)
	}
	for _, m := range s.members {
		if m.state == suspect {
			due = min(due, m.confirmAt)
		}
	}
	return due
}

// ping begins a probe of the next node of the round.
func (s *swim) ping(now time.Duration) {
	s.probe = probe{}
	target, ok := s.nextTarget()
	if !ok {
		return
	}
	s.seq++
	s.probe = probe{target: target, seq: s.seq, askAt: now + s.cfg.AckTimeout, pending: true}
	s.tell(target, message{Kind: ping, Seq: s.seq})
}

// nextTarget returns the next node of the round. Each round is shuffled anew, so that every node is probed within 2·n−1 periods at
// most: section 4.3 of the paper.
func (s *swim) nextTarget() (int, bool) {
	for range 2 {
		for len(s.round) > 0 {
			id := s.round[0]
			if s.round = s.round[1:]; s.members[id].state != dead {
				return id, true
			}
		}
		s.round = s.others(s.id)
	}
	return 0, false
}

// others returns whom this node does not think dead, in random order, without itself and one more.
func (s *swim) others(without int) []int {
	var ids []int
	for id, m := range s.members {
		if id != s.id && id != without && m.state != dead {
			ids = append(ids, id)
		}
	}
	s.rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return ids
}

// askOthers has some others ping the target: a packet lost on one way convicts nobody then.
func (s *swim) askOthers() {
	helpers := s.others(s.probe.target)
	for _, helper := range helpers[:min(s.cfg.Indirect, len(helpers))] {
		s.tell(helper, message{Kind: pingReq, Seq: s.probe.seq, Target: s.probe.target})
	}
}

// tell sends a message with news on its back.
func (s *swim) tell(to int, m message) {
	m.From, m.News = s.id, s.gossip.take()
	s.send(to, m)
}

func (s *swim) receive(now time.Duration, m message) {
	for _, u := range m.News {
		s.hear(now, u)
	}
	switch m.Kind {
	case ping:
		s.tell(m.From, message{Kind: ack, Seq: m.Seq})
	case pingReq:
		s.seq++
		s.relays[s.seq] = relay{origin: m.From, seq: m.Seq, until: now + s.cfg.Period}
		s.tell(m.Target, message{Kind: ping, Seq: s.seq})
	case ack:
		if r, ok := s.relays[m.Seq]; ok {
			delete(s.relays, m.Seq)
			s.tell(r.origin, message{Kind: ack, Seq: r.seq})
		} else if m.Seq == s.probe.seq {
			s.probe.pending = false
		}
	}
}

// forgetRelays drops the pings for others that were never acked.
func (s *swim) forgetRelays(now time.Duration) {
	for seq, r := range s.relays {
		if now >= r.until {
			delete(s.relays, seq)
		}
	}
}
