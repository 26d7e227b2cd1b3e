package torture

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// faultKind is something that goes wrong, and then no longer does.
type faultKind struct {
	about string
	// needsMySQL: it kills the database's process, which must be the run's own.
	needsMySQL bool
	// strike begins the fault, keeps it up for a while and heals it, all by the dice alone. It returns what it hit. ctx ends when
	// everything is to heal at once.
	strike func(ctx context.Context, n *nemesis, id int, dice *rand.Rand) (what string, err error)
}

// FaultNames lists the faults and what they do.
func FaultNames() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(faultKinds)) {
		out = append(out, fmt.Sprintf("%-18s %s", name, faultKinds[name].about))
	}
	return out
}

// struck is a fault that was.
type struck struct {
	kind, what string
	from, to   time.Duration // since the run began
	err        error
}

// nemesis strikes by a schedule that its seed has made.
type nemesis struct {
	site  *site
	began time.Time
	out   io.Writer

	mu    sync.Mutex
	done  []struck
	wrong []violation // what ended in another way than it must
}

// card is one fault of the schedule.
type card struct {
	kind string
	at   time.Duration
	seed uint64
}

// Each round deals every kind once, within so long; shorter runs have one round.
const roundLength = 20 * time.Second

// schedule deals the kinds, shuffled, over the duration, and again for as long as it lasts. The last seconds are left alone, for
// a fault that begins then heals at once.
func schedule(seed uint64, kinds []string, duration time.Duration) []card {
	dice := rand.New(rand.NewPCG(seed, 1))
	end := duration - duration/10
	round := min(roundLength, end)
	var out []card
	for begin := time.Duration(0); begin < end; begin += round {
		deck := slices.Clone(kinds)
		dice.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		step := round / time.Duration(len(deck))
		for i, kind := range deck {
			at := begin + step*time.Duration(i) + time.Duration(dice.Int64N(int64(step)+1))
			if at < end {
				out = append(out, card{kind: kind, at: at, seed: dice.Uint64()})
			}
		}
	}
	return out
}

// run strikes by the schedule until ctx ends, and returns when everything that it began is healed.
func (n *nemesis) run(ctx context.Context, cards []card) {
	var strikes sync.WaitGroup
	defer strikes.Wait()
	for id, c := range cards {
		if pause(ctx, time.Until(n.began.Add(c.at))) != nil {
			return
		}
		strikes.Go(func() { n.strike(ctx, id+1, c) })
	}
}

func (n *nemesis) strike(ctx context.Context, id int, c card) {
	from := time.Since(n.began)
	what, err := faultKinds[c.kind].strike(ctx, n, id, rand.New(rand.NewPCG(c.seed, 2)))
	s := struck{kind: c.kind, what: what, from: from, to: time.Since(n.began), err: err}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.done = append(n.done, s)
	if _, err := fmt.Fprintf(n.out, "  %s\n", s); err != nil {
		n.done[len(n.done)-1].err = err // whoever watched has left; the attack goes on
	}
}

func (s struck) String() string {
	text := fmt.Sprintf("%6.1f s – %5.1f s  %-18s %s", s.from.Seconds(), s.to.Seconds(), s.kind, s.what)
	if s.err != nil {
		text += "  (" + s.err.Error() + ")"
	}
	return text
}

// accuse notes that something ended in another way than it must.
func (n *nemesis) accuse(v violation) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wrong = append(n.wrong, v)
}

// lasting waits for a random time between the two, or until everything is to heal.
func lasting(ctx context.Context, dice *rand.Rand, least, most time.Duration) {
	if pause(ctx, least+time.Duration(dice.Int64N(int64(most-least)+1))) != nil {
		return // the fault is over all the same
	}
}

// healing is a context for making good what a fault has done, which goes on though the run ends.
func healing(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), healBound)
}
