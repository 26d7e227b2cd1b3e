package membership

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestNewsOverridesByThePapersRules(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		known member
		news  news
		want  bool
	}{
		{"suspicion overrides the same life", member{state: alive, incarnation: 3}, news{State: suspect, Incarnation: 3}, true},
		{"suspicion does not override a later life", member{state: alive, incarnation: 3}, news{State: suspect, Incarnation: 2}, false},
		{"a later life overrides suspicion", member{state: suspect, incarnation: 3}, news{State: alive, Incarnation: 4}, true},
		{"the same life does not", member{state: suspect, incarnation: 3}, news{State: alive, Incarnation: 3}, false},
		{"a later life overrides a life", member{state: alive, incarnation: 3}, news{State: alive, Incarnation: 4}, true},
		{"the same life is no news", member{state: alive, incarnation: 3}, news{State: alive, Incarnation: 3}, false},
		{"a later suspicion overrides suspicion", member{state: suspect, incarnation: 3}, news{State: suspect, Incarnation: 4}, true},
		{"the same suspicion is no news", member{state: suspect, incarnation: 3}, news{State: suspect, Incarnation: 3}, false},
		{"death overrides a later life", member{state: alive, incarnation: 3}, news{State: dead, Incarnation: 2}, true},
		{"death overrides suspicion", member{state: suspect, incarnation: 3}, news{State: dead, Incarnation: 3}, true},
		{"nothing overrides death", member{state: dead, incarnation: 3}, news{State: alive, Incarnation: 9}, false},
		{"death is told once", member{state: dead, incarnation: 3}, news{State: dead, Incarnation: 9}, false},
	}
	for _, tt := range tests {
		if got := tt.news.overrides(tt.known); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// sentMessage is what a node under test has sent.
type sentMessage struct {
	to int
	m  message
}

// alone returns the protocol of node 0, what it sends, and whom it calls dead.
func alone(cfg Config) (s *swim, sent *[]sentMessage, declared *[]int) {
	sent, declared = &[]sentMessage{}, &[]int{}
	s = newSWIM(self{cfg: cfg, rng: rand.New(rand.NewPCG(1, 1)),
		send:    func(to int, m message) { *sent = append(*sent, sentMessage{to, m}) },
		declare: func(about int) { *declared = append(*declared, about) }}, 0)
	return s, sent, declared
}

func TestSuspectRefutesWithALaterIncarnation(t *testing.T) {
	t.Parallel()
	s, sent, declared := alone(documented(suspicion1s))
	s.receive(0, message{Kind: ping, From: 7, Seq: 41, News: []news{{About: 0, State: suspect, Incarnation: 0}}})
	want := []sentMessage{{7, message{Kind: ack, Seq: 41, News: []news{{About: 0, State: alive, Incarnation: 1}}}}}
	if diff := cmp.Diff(want, *sent, cmp.AllowUnexported(sentMessage{})); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	// The old suspicion comes again, by another way, and is answered already. A later one is answered anew.
	s.receive(0, message{Kind: ack, From: 8, News: []news{{About: 0, State: suspect, Incarnation: 0}}})
	if got := s.members[0].incarnation; got != 1 {
		t.Errorf("incarnation %d after a suspicion that was refuted, want 1", got)
	}
	s.receive(0, message{Kind: ack, From: 8, News: []news{{About: 0, State: suspect, Incarnation: 1}}})
	if got := s.members[0].incarnation; got != 2 {
		t.Errorf("incarnation %d after a new suspicion, want 2", got)
	}
	s.receive(0, message{Kind: ack, From: 8, News: []news{{About: 0, State: dead, Incarnation: 2}}})
	if got := s.members[0].incarnation; got != 2 || len(*declared) != 0 {
		t.Errorf("incarnation %d and %v declared after its own death, which it can't refute; want 2, none", got, *declared)
	}
}

func TestRefutedSuspicionIsForgotten(t *testing.T) {
	t.Parallel()
	s, _, declared := alone(documented(suspicion1s))
	s.hear(0, news{About: 3, State: suspect, Incarnation: 0})
	s.hear(0, news{About: 4, State: suspect, Incarnation: 0})
	s.hear(900*time.Millisecond, news{About: 3, State: alive, Incarnation: 1})
	s.confirm(999 * time.Millisecond)
	if len(*declared) != 0 {
		t.Errorf("%v declared dead before the suspicion ended", *declared)
	}
	s.confirm(time.Second)
	if diff := cmp.Diff([]int{4}, *declared); diff != "" {
		t.Errorf("declared dead (-want +got):\n%s", diff)
	}
}

func TestProbeAsksOthersBeforeItJudges(t *testing.T) {
	t.Parallel()
	s, sent, declared := alone(documented(plainSWIM))
	if next := s.act(0); next != 60*time.Millisecond {
		t.Fatalf("next at %v, want when others are asked", next)
	}
	target := (*sent)[0].to
	if next := s.act(60 * time.Millisecond); next != 200*time.Millisecond {
		t.Fatalf("next at %v, want at the end of the period", next)
	}
	helpers := map[int]bool{}
	for _, m := range (*sent)[1:] {
		if m.m.Kind != pingReq || m.m.Target != target || m.to == target || m.to == 0 {
			t.Errorf("%+v, want a ping-req for node %d to a third", m, target)
		}
		helpers[m.to] = true
	}
	if len(helpers) != 3 {
		t.Errorf("%d helpers, want 3", len(helpers))
	}
	s.act(199 * time.Millisecond)
	if len(*declared) != 0 {
		t.Errorf("%v declared dead within the period", *declared)
	}
	s.act(200 * time.Millisecond)
	if diff := cmp.Diff([]int{target}, *declared); diff != "" {
		t.Errorf("declared dead (-want +got):\n%s", diff)
	}
}

func TestHelpersAckAcquits(t *testing.T) {
	t.Parallel()
	s, sent, declared := alone(documented(plainSWIM))
	s.act(0)
	s.act(60 * time.Millisecond)
	asked := (*sent)[1].m

	// The helper's side: it pings the target under a number of its own, and passes the ack on under the asker's.
	helper, fromHelper, _ := alone(documented(plainSWIM))
	helper.seq = 40
	helper.receive(0, asked)
	relayed := (*fromHelper)[0]
	if relayed.to != asked.Target || relayed.m.Kind != ping {
		t.Fatalf("the helper sent %+v, want a ping to %d", relayed, asked.Target)
	}
	helper.receive(0, message{Kind: ack, From: asked.Target, Seq: relayed.m.Seq})
	if got := (*fromHelper)[1]; got.to != asked.From || got.m.Kind != ack || got.m.Seq != asked.Seq {
		t.Fatalf("the helper passed on %+v, want an ack with number %d to node %d", got, asked.Seq, asked.From)
	}

	s.receive(150*time.Millisecond, (*fromHelper)[1].m)
	s.act(200 * time.Millisecond)
	if len(*declared) != 0 {
		t.Errorf("%v declared dead in spite of the ack", *declared)
	}
}

func TestEveryNodeIsPingedOftenEnough(t *testing.T) {
	t.Parallel()
	cfg := documented(plainSWIM)
	s, sent, _ := alone(cfg)
	last := map[int]int{}
	for period := range 20 * cfg.Nodes {
		*sent = nil
		s.act(time.Duration(period) * cfg.Period)
		ping := (*sent)[0]
		s.receive(s.periodStart-time.Millisecond, message{Kind: ack, From: ping.to, Seq: ping.m.Seq})
		// There are n−1 others, so a node that was first in a round may be last in the next.
		if waited := period - last[ping.to]; waited > 2*(cfg.Nodes-1)-1 {
			t.Errorf("node %d was not pinged for %d periods", ping.to, waited)
		}
		last[ping.to] = period
	}
	if len(last) != cfg.Nodes-1 {
		t.Errorf("%d nodes were pinged, want %d", len(last), cfg.Nodes-1)
	}
}

func TestGossipTellsTheNewestFirstAndNotForEver(t *testing.T) {
	t.Parallel()
	g := newGossip(3)
	if g.limit != 4 { // 3·ln 3, rounded up
		t.Fatalf("limit %d, want 4", g.limit)
	}
	for id := range 7 {
		g.tell(news{About: id, State: suspect})
	}
	first := g.take()
	g.tell(news{About: 2, State: dead}) // in the place of what was told of it
	second := g.take()
	if diff := cmp.Diff([]int{0, 1, 2, 3, 4, 5}, subjects(first)); diff != "" {
		t.Errorf("first packet (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int{6, 2, 0, 1, 3, 4}, subjects(second)); diff != "" {
		t.Errorf("second packet (-want +got):\n%s", diff)
	}
	told := map[news]int{}
	for _, u := range append(first, second...) {
		told[u]++
	}
	for range 100 {
		for _, u := range g.take() {
			told[u]++
		}
	}
	want := map[news]int{{About: 2, State: suspect}: 1, {About: 2, State: dead}: 4}
	for _, id := range []int{0, 1, 3, 4, 5, 6} {
		want[news{About: id, State: suspect}] = 4
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("how often each was told (-want +got):\n%s", diff)
	}
}

func subjects(all []news) (ids []int) {
	for _, u := range all {
		ids = append(ids, u.About)
	}
	return ids
}
