package membership

import "time"

// failed judges a node that answered nobody in a whole period.
func (s *swim) failed(now time.Duration, id int) {
	verdict := news{About: id, State: dead, Incarnation: s.members[id].incarnation}
	if s.cfg.Suspicion > 0 {
		verdict.State = suspect
	}
	s.hear(now, verdict)
}

// hear takes in news, its own verdicts too, and passes on what was new.
func (s *swim) hear(now time.Duration, u news) {
	if u.About == s.id {
		s.refute(u)
		return
	}
	m := &s.members[u.About]
	if !u.overrides(*m) {
		return
	}
	*m = member{state: u.State, incarnation: u.Incarnation, confirmAt: now + s.cfg.Suspicion}
	s.gossip.tell(u)
	if u.State == dead {
		s.declare(u.About)
	}
}

// refute answers a suspicion of this node itself with a later incarnation, which overrides it everywhere. Who was called dead has
// nothing to answer: that is final.
func (s *swim) refute(u news) {
	own := &s.members[s.id]
	if u.State != suspect || u.Incarnation < own.incarnation {
		return
	}
	own.incarnation = u.Incarnation + 1
	s.gossip.tell(news{About: s.id, State: alive, Incarnation: own.incarnation})
}

// confirm calls those dead that have not refuted their suspicion in time.
func (s *swim) confirm(now time.Duration) {
	for id, m := range s.members {
		if m.state == suspect && now >= m.confirmAt {
			s.hear(now, news{About: id, State: dead, Incarnation: m.incarnation})
		}
	}
}
