package membership

import (
	"container/heap"
	"errors"
	"math/rand/v2"
	"time"
)

// latency is how long a packet travels at most in a simulation.
const latency = time.Millisecond

// simulation plays a script in virtual time, without sockets or goroutines: the same protocols on a machine that is never late. The
// seed decides everything in it.
type simulation struct {
	cfg      Config
	now      time.Duration
	events   events
	nodes    []*simulated
	order    int // of the last event
	sent     int
	verdicts []Verdict
}

// simulated is a node of a simulation.
type simulated struct {
	protocol protocol
	rng      *rand.Rand
	dead     bool
	frozen   bool
	mail     []message     // that came while it was frozen
	due      time.Duration // when it wakes next; other events that were to wake it are void
}

// Simulate is [Run] in virtual time. It can't do [Library], which has a clock of its own.
func Simulate(cfg Config, s Script) (Result, error) {
	if err := check(cfg, s); err != nil {
		return Result{}, err
	}
	if cfg.Protocol == Library {
		return Result{}, errors.New("memberlist has a clock of its own, and can't be simulated")
	}
	sim := newSimulation(cfg)
	r := Result{Nodes: cfg.Nodes, CrashedAt: s.Crash}
	before := 0
	sim.at(s.Settle, func() { before = sim.sent })
	sim.at(s.Crash, func() {
		r.PacketRate = float64(sim.sent-before) / (s.Crash - s.Settle).Seconds() / float64(cfg.Nodes)
		sim.nodes[0].dead = true
	})
	if s.FreezeFor > 0 {
		last := cfg.Nodes - 1
		sim.at(s.Freeze, func() { sim.nodes[last].frozen = true })
		sim.at(s.Freeze+s.FreezeFor, func() { sim.thaw(last) })
	}
	for len(sim.events) > 0 && sim.events[0].at <= s.End {
		e := heap.Pop(&sim.events).(event)
		sim.now = e.at
		e.do()
	}
	r.Verdicts = sim.verdicts
	return r, nil
}

func newSimulation(cfg Config) *simulation {
	sim := &simulation{cfg: cfg}
	for id := range cfg.Nodes {
		n := &simulated{rng: rand.New(rand.NewPCG(cfg.Seed, uint64(id)))}
		n.protocol = newProtocol(self{id: id, cfg: cfg, rng: n.rng,
			send:    func(to int, m message) { sim.send(n, to, m) },
			declare: func(about int) { sim.verdicts = append(sim.verdicts, Verdict{By: id, About: about, At: sim.now}) }})
		sim.nodes = append(sim.nodes, n)
		sim.at(0, func() { sim.wake(n) })
	}
	return sim
}

// at has something done at a time.
func (sim *simulation) at(when time.Duration, do func()) {
	sim.order++
	heap.Push(&sim.events, event{at: when, order: sim.order, do: do})
}

// wake has a node do what is due, and wake again for what is due next.
func (sim *simulation) wake(n *simulated) {
	if n.dead || n.frozen {
		return
	}
	due := n.protocol.act(sim.now)
	if due == n.due {
		return // it waits for that already
	}
	n.due = due
	sim.at(due, func() {
		if n.due == due {
			sim.wake(n)
		}
	})
}

func (sim *simulation) send(from *simulated, to int, m message) {
	sim.sent++
	if from.rng.Float64() < sim.cfg.Loss {
		return
	}
	travels := time.Duration(from.rng.Int64N(int64(latency)))
	sim.at(sim.now+travels, func() { sim.deliver(sim.nodes[to], m) })
}

func (sim *simulation) deliver(to *simulated, m message) {
	switch {
	case to.dead:
	case to.frozen:
		to.mail = append(to.mail, m)
	default:
		to.protocol.receive(sim.now, m)
		sim.wake(to)
	}
}

// thaw ends a node's freeze: it reads its mail, and does what was due before or after that.
func (sim *simulation) thaw(id int) {
	n := sim.nodes[id]
	n.frozen = false
	if sim.cfg.TimersFirst {
		sim.wake(n)
	}
	for _, m := range n.mail {
		n.protocol.receive(sim.now, m)
	}
	n.mail = nil
	sim.wake(n)
}

// event is something that is done at a time.
type event struct {
	at    time.Duration
	order int // of those at the same time
	do    func()
}

// events is a heap, the earliest first.
type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	last := old[len(old)-1]
	*e = old[:len(old)-1]
	return last
}
