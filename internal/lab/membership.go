package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"chargeonce/internal/lab/membership"
)

var membershipExperiment = with(Experiment{
	Name:  "membership",
	Title: "Who is alive? Clusters over real UDP: heartbeats to all, SWIM, SWIM with suspicion, and hashicorp/memberlist",
	Shows: `With heartbeats to all, each node sends the more packets the more nodes there are; with SWIM a node pings one other in a
period, however many there are, and tells the news on packets that it sends anyway. A lost packet must not convict a node, so
others are asked to ping it as well (ping-req): without that, nearly all are soon called dead though they live. And a node that
only stands still for a while must not be buried: with suspicion it is given time to answer, and refutes what is said of it by a
higher incarnation. The price is that a real death is known later. A node that stood still can err itself: if it looks at its
clock before it reads its mail, it takes all others for dead. Memberlist is what one would really use: SWIM with suspicion, and
Lifeguard against such errors.`,
	Bound: 4 * time.Minute,
	Code: []string{"internal/lab/membership/swim.go", "internal/lab/membership/suspicion.go", "internal/lab/membership/members.go",
		"internal/lab/membership/gossip.go", "internal/lab/membership/heartbeats.go", "internal/lab/membership/node.go",
		"internal/lab/membership/library.go", "internal/lab/membership/wire.go", "internal/lab/membership.go"},
}, membershipFull, membershipSmall, runMembership)

// membershipNumbers are what the experiment is made with.
type membershipNumbers struct {
	Sizes         []int         `help:"Nodes in the clusters that are compared by size, ascending."`
	Nodes         int           `help:"Nodes in the clusters that lose packets, or whose last node freezes."`
	Period        time.Duration `help:"Between a node's heartbeats, or its pings."`
	AckTimeout    time.Duration `help:"How long SWIM waits for an ack before it asks others."`
	Indirect      int           `help:"How many others it asks."`
	Silence       time.Duration `help:"How long a node may send no heartbeat before it is called dead."`
	Suspicion     time.Duration `help:"How long a suspect may refute, the shorter time."`
	LongSuspicion time.Duration `help:"How long a suspect may refute, the longer time."`
	Loss          float64       `help:"Share of packets lost."`
	FreezeFor     time.Duration `help:"How long the last node stands still."`
	Settle        time.Duration `help:"When packets are counted from."`
	Crash         time.Duration `help:"When the first node dies."`
	Freeze        time.Duration `help:"When the last node stands still."`
	End           time.Duration `help:"When a cluster is shut down."`
	LossRuns      int           `help:"Runs with loss, each with a seed of its own."`
	FreezeRuns    int           `help:"Runs with a freeze, each with a seed of its own."`
	AllAtOnce     bool          `help:"Run the clusters of all sizes at the same time. They disturb each other."`
	Simulated     bool          `help:"Loss and freeze in virtual time, without sockets: exactly repeatable. Not for memberlist."`
	Again         int           `help:"How often runs are made again that the machine disturbed." min:"0"`
}

var (
	membershipFull = membershipNumbers{Sizes: []int{10, 30, 60}, Nodes: 30,
		Period: 200 * time.Millisecond, AckTimeout: 60 * time.Millisecond, Indirect: 3, Silence: 600 * time.Millisecond,
		Suspicion: time.Second, LongSuspicion: 2 * time.Second, Loss: 0.05, FreezeFor: 700 * time.Millisecond,
		Settle: 500 * time.Millisecond, Crash: 1500 * time.Millisecond, Freeze: 2500 * time.Millisecond,
		End: 5500 * time.Millisecond, LossRuns: 2, FreezeRuns: 3, Again: 1}
	membershipSmall = membershipNumbers{Sizes: []int{3, 6}, Nodes: 8,
		Period: 100 * time.Millisecond, AckTimeout: 40 * time.Millisecond, Indirect: 3, Silence: 300 * time.Millisecond,
		Suspicion: 600 * time.Millisecond, LongSuspicion: 1200 * time.Millisecond, Loss: 0.05, FreezeFor: 600 * time.Millisecond,
		Settle: 300 * time.Millisecond, Crash: 800 * time.Millisecond, Freeze: time.Second, End: 3 * time.Second,
		LossRuns: 1, FreezeRuns: 1, AllAtOnce: true, Simulated: true}
)

// clusterRun is one cluster, and what came of it.
type clusterRun struct {
	way       string
	cfg       membership.Config
	script    membership.Script
	simulated bool
	membership.Result
}

type clusterRuns []*clusterRun

// The ways to watch each other that are compared.
const (
	wayHeartbeats  = "heartbeats to all"
	wayTimersFirst = "heartbeats, clock before mail"
	wayNoPingReq   = "SWIM, no ping-req"
	waySWIM        = "SWIM"
	waySuspicion   = "SWIM + suspicion"
	wayLong        = "SWIM + longer suspicion"
	wayLibrary     = "memberlist"
)

// cluster returns a run of one of the ways.
func (n membershipNumbers) cluster(way string, nodes int, seed uint64) *clusterRun {
	c := membership.Config{Protocol: membership.SWIM, Nodes: nodes, Period: n.Period, Silence: n.Silence,
		AckTimeout: n.AckTimeout, Indirect: n.Indirect, Seed: seed}
	switch way {
	case wayHeartbeats:
		c.Protocol = membership.Heartbeats
	case wayTimersFirst:
		c.Protocol, c.TimersFirst = membership.Heartbeats, true
	case wayNoPingReq:
		c.Indirect = 0
	case waySuspicion:
		c.Suspicion = n.Suspicion
	case wayLong:
		c.Suspicion = n.LongSuspicion
	case wayLibrary:
		c.Protocol = membership.Library
	}
	s := membership.Script{Settle: n.Settle, Crash: n.Crash, Freeze: n.Freeze, End: n.End}
	if c.Protocol == membership.Library { // its nodes have settled when the script begins
		s = membership.Script{Crash: n.Crash - n.Settle, Freeze: n.Freeze - n.Settle, End: n.End - n.Settle}
	}
	return &clusterRun{way: way, cfg: c, script: s}
}

// bySize returns a run of each way at each size, until all know of the death.
func (n membershipNumbers) bySize(seed uint64, ways ...string) (runs clusterRuns) {
	for _, nodes := range n.Sizes {
		for _, way := range ways {
			c := n.cluster(way, nodes, seed)
			c.script.UntilKnown, c.script.End = true, 2*c.script.End
			runs = append(runs, c)
		}
	}
	return runs
}

// lossy returns the runs of each way that lose packets.
func (n membershipNumbers) lossy(seed uint64, ways ...string) (runs clusterRuns) {
	for _, way := range ways {
		for run := range n.LossRuns {
			c := n.cluster(way, n.Nodes, seed<<8+uint64(run))
			c.cfg.Loss, c.simulated = n.Loss, n.Simulated
			runs = append(runs, c)
		}
	}
	return runs
}

// freezing returns the runs of each way in which the last node freezes. Those of heartbeats all end alike, so one is enough.
func (n membershipNumbers) freezing(seed uint64, ways ...string) (runs clusterRuns) {
	for _, way := range ways {
		for run := range n.FreezeRuns {
			c := n.cluster(way, n.Nodes, seed<<8+uint64(run))
			c.script.FreezeFor, c.simulated = n.FreezeFor, n.Simulated
			runs = append(runs, c)
			if c.cfg.Protocol == membership.Heartbeats {
				break
			}
		}
	}
	return runs
}

func runMembership(ctx context.Context, _ Env, o Options, n membershipNumbers) (r Report, err error) {
	if len(n.Sizes) == 0 || n.LossRuns < 1 || n.FreezeRuns < 1 {
		return r, fmt.Errorf("membership: one size and one run of each kind at least, not %v, %d and %d", n.Sizes, n.LossRuns, n.FreezeRuns)
	}
	heartbeats, swims := n.bySize(o.Seed, wayHeartbeats), n.bySize(o.Seed, waySWIM, waySuspicion)
	library := n.bySize(o.Seed, wayLibrary)
	losses := n.lossy(o.Seed, wayHeartbeats, wayNoPingReq, waySWIM, waySuspicion)
	freezes := n.freezing(o.Seed, wayTimersFirst, wayHeartbeats, waySWIM, waySuspicion, wayLong)
	var libraryLosses, libraryFreezes clusterRuns
	if !n.Simulated {
		libraryLosses, libraryFreezes = n.lossy(o.Seed, wayLibrary)[:1], n.freezing(o.Seed, wayLibrary)[:1]
	}
	largest := len(library) - 1
	batches := []clusterRuns{losses, freezes, swims, library[largest:],
		slices.Concat(library[:largest], libraryLosses, libraryFreezes)}
	for _, c := range heartbeats {
		batches = append(batches, clusterRuns{c}) // a large cluster's take so much of a machine that nothing else should run
	}
	if n.AllAtOnce {
		batches = []clusterRuns{losses, freezes, slices.Concat(batches[2:]...)}
	}
	for _, batch := range batches {
		notes, err := n.sideBySide(ctx, batch)
		if err != nil {
			return r, err
		}
		r.Notes = append(r.Notes, notes...)
	}
	n.bySizeReport(&r, slices.Concat(heartbeats, swims, library))
	n.lossReport(&r, slices.Concat(losses, libraryLosses))
	n.freezeReport(&r, slices.Concat(freezes, libraryFreezes))
	return r, nil
}

// sideBySide makes some runs at the same time, and once more when the machine disturbed them.
func (n membershipNumbers) sideBySide(ctx context.Context, runs clusterRuns) (notes []string, err error) {
	for range 1 + n.Again {
		err := crowd(ctx, len(runs), len(runs), func(ctx context.Context, i int) error { return runs[i].make(ctx) })
		if err != nil {
			return notes, err
		}
		if late := runs.late(); late >= n.Period/2 {
			notes = append(notes, fmt.Sprintf("The machine stood still for %s, or longer, while %s ran.", ms(late), runs.ways()))
		}
		if n.calm(runs) {
			break
		}
	}
	return notes, nil
}

// make lets the script happen to a cluster. One that never was complete has no result.
func (c *clusterRun) make(ctx context.Context) (err error) {
	if c.simulated {
		c.Result, err = membership.Simulate(c.cfg, c.script)
		return err
	}
	c.Result, err = membership.Run(ctx, c.cfg, c.script)
	if errors.Is(err, membership.ErrIncomplete) {
		c.Late = c.cfg.Period
		return nil
	}
	return err
}

// calm says that the machine did not disturb our own protocols: it never stood still for so long that living nodes may have looked
// dead. Memberlist bears more, and makes more work itself.
func (n membershipNumbers) calm(runs clusterRuns) bool {
	return slices.DeleteFunc(slices.Clone(runs), (*clusterRun).library).late() < n.Period/2
}

func (c *clusterRun) library() bool { return c.cfg.Protocol == membership.Library }
