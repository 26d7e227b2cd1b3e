package membership

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// documented is the document's cluster: 30 nodes that act every 200 ms.
func documented(change func(*Config)) Config {
	cfg := Config{Protocol: SWIM, Nodes: 30, Period: 200 * time.Millisecond, Silence: 600 * time.Millisecond,
		AckTimeout: 60 * time.Millisecond, Indirect: 3, Seed: 1}
	change(&cfg)
	return cfg
}

var (
	crashAt2 = Script{Settle: time.Second, Crash: 2 * time.Second, End: 6 * time.Second}
	freezeAt = Script{Settle: time.Second, Crash: 2 * time.Second, Freeze: 3 * time.Second, FreezeFor: 700 * time.Millisecond,
		End: 7 * time.Second}
)

func heartbeatsToAll(c *Config) { c.Protocol = Heartbeats }
func plainSWIM(*Config)         {}
func noPingReq(c *Config)       { c.Indirect = 0 }
func suspicion1s(c *Config)     { c.Suspicion = time.Second }
func suspicion2s(c *Config)     { c.Suspicion = 2 * time.Second }

func simulate(t *testing.T, cfg Config, s Script) Result {
	t.Helper()
	r, err := Simulate(cfg, s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestHeartbeatsGrowWithTheClusterAndSWIMDoesNot(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		protocol func(*Config)
		want     [3]float64 // packets per node and second, 10, 30 and 60 nodes
	}{
		{"heartbeats: n−1 in a period", heartbeatsToAll, [3]float64{45, 145, 295}},
		{"SWIM: a ping and an ack in a period", plainSWIM, [3]float64{10, 10, 10}},
		{"suspicion costs no packets", suspicion1s, [3]float64{10, 10, 10}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got [3]float64
			for i, nodes := range []int{10, 30, 60} {
				cfg := documented(tt.protocol)
				cfg.Nodes = nodes
				got[i] = math.Round(simulate(t, cfg, crashAt2).PacketRate)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("packets (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAllLearnOfADeathAndOfNoOther(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name           string
		protocol       func(*Config)
		soonest, until time.Duration
	}{
		// The last heartbeat came up to a period before the crash; silence is looked for every quarter of a period.
		{"heartbeats", heartbeatsToAll, 400 * time.Millisecond, 650 * time.Millisecond},
		{"SWIM", plainSWIM, 200 * time.Millisecond, 2 * time.Second},
		{"with suspicion", suspicion1s, 1200 * time.Millisecond, 3 * time.Second},
		{"with longer suspicion", suspicion2s, 2200 * time.Millisecond, 4 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(10) {
				cfg := documented(tt.protocol)
				cfg.Seed = seed
				r := simulate(t, cfg, crashAt2)
				known, ok := r.AllKnew()
				if !ok || known < tt.soonest || known > tt.until || len(r.FalsePositives()) != 0 {
					t.Errorf("seed %d: all knew: %v, after %v, want %v to %v; false positives: %v", seed, ok, known, tt.soonest,
						tt.until, r.FalsePositives())
				}
			}
		})
	}
}

func TestPingReqKeepsLostPacketsFromConvictingTheLiving(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name           string
		protocol       func(*Config)
		fewest, most   int // false positives in ten runs, out of 8,410 that there could be
		fewestAccused  int // in each run
		everyoneLearns bool
	}{
		{"no ping-req: nearly all are called dead by nearly all", noPingReq, 7500, 8410, 29, false},
		{"with ping-req: a node now and then", plainSWIM, 1, 500, 0, true},
		{"with suspicion: nobody", suspicion1s, 0, 0, 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			total := 0
			for seed := range uint64(10) {
				cfg := documented(tt.protocol)
				cfg.Loss, cfg.Seed = 0.05, seed
				r := simulate(t, cfg, crashAt2)
				total += len(r.FalsePositives())
				if r.Accused() < tt.fewestAccused {
					t.Errorf("seed %d: %d nodes were falsely called dead, want %d at least", seed, r.Accused(), tt.fewestAccused)
				}
				if tt.everyoneLearns && r.CalledDead(0) != r.Survivors() {
					t.Errorf("seed %d: %d of %d called the dead node dead", seed, r.CalledDead(0), r.Survivors())
				}
			}
			if total < tt.fewest || total > tt.most {
				t.Errorf("%d false positives, want %d to %d", total, tt.fewest, tt.most)
			}
		})
	}
}

func TestFrozenNode(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		protocol func(*Config)
		// Of ten runs: in how many all 28 others call it dead, and in how many it calls all 28 others dead. There is no third way
		// but nobody: what one node finds out the others hear.
		deadAtLeast, deadAtMost, accuses int
	}{
		{"heartbeats, mail before clock", heartbeatsToAll, 10, 10, 0},
		{"heartbeats, clock before mail", func(c *Config) { c.Protocol, c.TimersFirst = Heartbeats, true }, 10, 10, 10},
		// A freeze of 3.5 periods goes unnoticed if no probe begins in its first 2.5: (1 − 2.5/29)²⁹, about 7 %.
		{"SWIM", plainSWIM, 7, 10, 0},
		{"suspicion that outlasts the freeze", suspicion2s, 0, 0, 0},
		{"suspicion that doesn't", func(c *Config) { c.Suspicion = 100 * time.Millisecond }, 7, 10, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dead, accuses := 0, 0
			for seed := range uint64(10) {
				cfg := documented(tt.protocol)
				cfg.Seed = seed
				r := simulate(t, cfg, freezeAt)
				others := r.Nodes - 2 // one died
				for _, n := range []int{r.CalledDead(r.Nodes - 1), r.CalledDeadByLast()} {
					if n != 0 && n != others {
						t.Errorf("seed %d: %d verdicts, want 0 or %d", seed, n, others)
					}
				}
				dead += r.CalledDead(r.Nodes-1) / others
				accuses += r.CalledDeadByLast() / others
			}
			if dead < tt.deadAtLeast || dead > tt.deadAtMost || accuses != tt.accuses {
				t.Errorf("called dead in %d runs and accused others in %d, want %d to %d and %d", dead, accuses, tt.deadAtLeast,
					tt.deadAtMost, tt.accuses)
			}
		})
	}
}

func TestSeedDecidesASimulation(t *testing.T) {
	t.Parallel()
	cfg := documented(suspicion1s)
	cfg.Loss = 0.05
	first := simulate(t, cfg, freezeAt)
	if diff := cmp.Diff(first, simulate(t, cfg, freezeAt)); diff != "" {
		t.Errorf("the same seed (-first +second):\n%s", diff)
	}
	cfg.Seed++
	if cmp.Equal(first, simulate(t, cfg, freezeAt)) {
		t.Error("another seed makes no difference")
	}
}

func TestWhatCannotBePlayedIsRefused(t *testing.T) {
	t.Parallel()
	good := documented(plainSWIM)
	tests := []struct {
		name   string
		cfg    Config
		script Script
	}{
		{"one node", documented(func(c *Config) { c.Nodes = 1 }), crashAt2},
		{"no period", documented(func(c *Config) { c.Period = 0 }), crashAt2},
		{"crash before the count", good, Script{Settle: 2 * time.Second, Crash: time.Second, End: 3 * time.Second}},
		{"end before the crash", good, Script{Crash: 2 * time.Second, End: time.Second}},
	}
	for _, tt := range tests {
		if _, err := Simulate(tt.cfg, tt.script); err == nil {
			t.Errorf("%s: simulated", tt.name)
		}
		if _, err := Run(t.Context(), tt.cfg, tt.script); err == nil {
			t.Errorf("%s: run", tt.name)
		}
	}
	if _, err := Simulate(documented(func(c *Config) { c.Protocol = Library }), crashAt2); err == nil {
		t.Error("memberlist was simulated")
	}
}
