package torture

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// Config says what is attacked, by whom and for how long. The binaries, Duration, and one of MySQLScript and DSN are required.
type Config struct {
	// ChargeOnce and GatewaySim are the binaries.
	ChargeOnce, GatewaySim string
	// MySQLScript is deploy/mysql/local: the run starts a MySQL of its own with it, and kills that one too.
	MySQLScript string
	// DSN is a MySQL that runs already, in place of MySQLScript. The run makes a database and accounts of its own on it and drops
	// them at its end, and leaves its process alone. The account needs the right to make accounts.
	DSN string

	// Duration is how long the clients buy and the faults strike. Healing and checking come after it.
	Duration time.Duration
	// Clients is how many buy at once (default 64).
	Clients int
	// Seed decides the faults and the clients' choices.
	Seed uint64
	// Guard turns one payment per order on, and promise 10 with it.
	Guard bool
	// Coalesce says which servers coalesce claims and finishes (default [CoalesceMixed]).
	Coalesce Coalesce
	// Faults names the faults to strike with; empty: all. See [FaultNames].
	Faults []string

	// Out gets the faults as they strike.
	Out io.Writer
	// Keep leaves the logs behind. They stay after a violation in any case.
	Keep bool

	// pace and cards are set by tests that are after one fault alone; the zero values take the defaults and the seed's schedule.
	pace  pace
	cards []card
}

// Coalesce says which servers coalesce claims and finishes. Both forms promise the same.
type Coalesce string

// Which servers coalesce.
const (
	CoalesceMixed Coalesce = "mixed" // all but the first, so that both forms work on the same keys
	CoalesceAll   Coalesce = "all"
	CoalesceNone  Coalesce = "none"
)

// The bounds of a run's parts, beside Duration.
const (
	setUpBound    = 3 * time.Minute
	healBound     = 90 * time.Second // everything runs again
	checkBound    = 5 * time.Minute
	tearDownBound = time.Minute
)

const defaultClients = 64

func (c Config) withDefaults() (Config, error) {
	switch {
	case c.ChargeOnce == "" || c.GatewaySim == "":
		return c, errors.New("torture: Config needs ChargeOnce and GatewaySim")
	case (c.MySQLScript == "") == (c.DSN == ""):
		return c, errors.New("torture: Config needs one of MySQLScript and DSN")
	case c.Duration <= 0:
		return c, errors.New("torture: Config.Duration must be above 0")
	case c.Clients < 0:
		return c, errors.New("torture: Config.Clients is negative")
	}
	if c.Clients == 0 {
		c.Clients = defaultClients
	}
	switch c.Coalesce {
	case "":
		c.Coalesce = CoalesceMixed
	case CoalesceMixed, CoalesceAll, CoalesceNone:
	default:
		return c, fmt.Errorf("torture: Config.Coalesce is %q", c.Coalesce)
	}
	if c.Out == nil {
		c.Out = io.Discard
	}
	for _, name := range c.Faults {
		if _, ok := faultKinds[name]; !ok {
			return c, fmt.Errorf("torture: there is no fault %q; see FaultNames", name)
		}
	}
	c.pace = c.pace.withDefaults()
	return c, nil
}

// pace is how patient the processes are: so impatient that a lease ends, and a key is abandoned, within seconds.
type pace struct {
	// deadline is the longest one of a request, finish bounds a claim and a finish, margin is added to a lease: their sum is the
	// longest lease.
	deadline, finish, margin time.Duration
	// grace and abandonAfter are those of reconciliation, lag how long it leaves pending charges and the newest statement alone.
	grace, abandonAfter, lag time.Duration
	// learn is how long, once all is healed, the clients may take to have their final answers, and quiet how long reconciliation to
	// have nothing left to do.
	learn, quiet time.Duration
	// calm is the PSP's faults while no fault of the nemesis changes them.
	calm pspFaults
}

func (p pace) withDefaults() pace {
	set := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	set(&p.deadline, 2*time.Second)
	set(&p.finish, time.Second)
	set(&p.margin, 500*time.Millisecond)
	set(&p.grace, time.Second)
	set(&p.abandonAfter, 2*time.Second)
	set(&p.lag, 2*time.Second)
	set(&p.learn, time.Minute)
	set(&p.quiet, time.Minute)
	if p.calm.Latency == "" {
		p.calm.Latency = "lognormal p50 20ms p99.9 300ms"
	}
	return p
}

// lease is the longest that a server can hold a key.
func (p pace) lease() time.Duration { return p.deadline + p.finish + p.margin }

// serveArgs are the flags of the n-th server, from 0.
func (c Config) serveArgs(n int) []string {
	args := []string{
		"--default-deadline", c.pace.deadline.String(), "--max-deadline", c.pace.deadline.String(),
		"--finish-timeout", c.pace.finish.String(), "--lease-margin", c.pace.margin.String(), "--reserve", "100ms",
		"--mysql-max-open", fmt.Sprint(mysqlMax), "--psp-slots", fmt.Sprint(pspSlots),
		"--psp-attempt-timeout", "500ms", "--psp-open-for", "300ms",
	}
	if c.Guard {
		args = append(args, "--one-payment-per-order")
	}
	coalesce := c.Coalesce == CoalesceAll || c.Coalesce == CoalesceMixed && n > 0
	return append(args, fmt.Sprintf("--coalesce=%t", coalesce))
}

// What a server may hold open at the most; the leak check knows them too.
const (
	mysqlMax = 8
	pspSlots = 12
)

// reconcileArgs are the flags of a reconcile loop.
func (c Config) reconcileArgs() []string {
	return []string{
		"reconcile", "--every", "700ms", "--jitter", "300ms", "--output", "json", "--lease", "2s", "--rate", "500",
		"--grace", c.pace.grace.String(), "--abandon-after", c.pace.abandonAfter.String(),
		"--pending-after", c.pace.lag.String(), "--quiet", c.pace.lag.String(), "--overlap", "5s",
		"--psp-attempt-timeout", "500ms", "--psp-open-for", "300ms",
	}
}
