package membership

import (
	"slices"
	"time"
)

// Verdict is one node's calling another one dead.
type Verdict struct {
	By, About int
	At        time.Duration
}

// Result is what came of a script. The first node, 0, is the one that died, and the last is the one that may have been frozen.
type Result struct {
	Nodes int
	// PacketRate is how many packets a node sent per second before the crash, on average.
	PacketRate float64
	CrashedAt  time.Duration
	// Verdicts in the order in which they were passed.
	Verdicts []Verdict
	// Late is how long the machine kept a goroutine waiting at most that only wanted to look at the clock. What is in the order of
	// the protocol's time-outs makes the machine fail, and not the nodes.
	Late time.Duration
}

// Survivors are the nodes that did not die.
func (r Result) Survivors() int { return r.Nodes - 1 }

// Learnt returns, in order, how long after the crash each survivor learnt of it. Who had called the node dead before it died, and
// does not take that back, is missing.
func (r Result) Learnt() []time.Duration {
	var out []time.Duration
	heard := map[int]bool{}
	for _, v := range r.Verdicts {
		if v.About == 0 && v.At >= r.CrashedAt && !heard[v.By] {
			heard[v.By] = true
			out = append(out, v.At-r.CrashedAt)
		}
	}
	slices.Sort(out)
	return out
}

// AllKnew returns how long after the crash the last survivor learnt of it, and whether all did.
func (r Result) AllKnew() (time.Duration, bool) {
	learnt := r.Learnt()
	if len(learnt) == 0 || len(learnt) < r.Survivors() {
		return 0, false
	}
	return learnt[len(learnt)-1], true
}

// FalsePositives returns the verdicts that called a living node dead; the dead node's own don't count.
func (r Result) FalsePositives() []Verdict {
	var out []Verdict
	for _, v := range r.Verdicts {
		if v.By != 0 && (v.About != 0 || v.At < r.CrashedAt) {
			out = append(out, v)
		}
	}
	return out
}

// Accused returns how many living nodes were called dead by somebody.
func (r Result) Accused() int {
	return distinct(r.FalsePositives(), func(v Verdict) (int, bool) { return v.About, true })
}

// CalledDead returns how many survivors called a node dead, rightly or not.
func (r Result) CalledDead(id int) int {
	return distinct(r.Verdicts, func(v Verdict) (int, bool) { return v.By, v.About == id && v.By != 0 })
}

// CalledDeadByLast returns how many living nodes the last one called dead.
func (r Result) CalledDeadByLast() int {
	return distinct(r.FalsePositives(), func(v Verdict) (int, bool) { return v.About, v.By == r.Nodes-1 })
}

// distinct counts the different nodes that pick returns.
func distinct(verdicts []Verdict, pick func(Verdict) (node int, ok bool)) int {
	found := map[int]bool{}
	for _, v := range verdicts {
		if node, ok := pick(v); ok {
			found[node] = true
		}
	}
	return len(found)
}
