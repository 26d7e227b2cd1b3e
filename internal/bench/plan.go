package bench

import (
	"fmt"
	"time"
)

// Face is the way in which payments are made.
type Face string

// The faces.
const (
	// BareSQL is no service at all: the statements of claim and finish, straight to MySQL.
	BareSQL Face = "bare SQL"
	GRPC    Face = "gRPC"
	REST    Face = "REST"
)

// Form is what is measured: a face, and whether the service behind it coalesces claims and finishes.
type Form struct {
	Face     Face
	Coalesce bool
}

// String names the form in tables.
func (f Form) String() string {
	if f.Coalesce {
		return string(f.Face) + " coalesced"
	}
	return string(f.Face)
}

// Condition is what the forms are measured under.
type Condition struct {
	// PSPLatency is how long the PSP works on a charge before it answers; 0: it answers at once.
	PSPLatency time.Duration
	// Webhooks has the PSP deliver each charge's event to the server meanwhile.
	Webhooks bool
}

// String names the condition in headings.
func (c Condition) String() string {
	psp, webhooks := "PSP answers at once", "no webhooks"
	if c.PSPLatency > 0 {
		psp = fmt.Sprintf("PSP takes %s", c.PSPLatency)
	}
	if c.Webhooks {
		webhooks = "webhooks"
	}
	return psp + ", " + webhooks
}

// Plan is what a run measures. In every condition, at every number in flight, each form is measured in turn, the bare SQL first:
// so what is compared was measured within seconds.
type Plan struct {
	Forms      []Form
	Conditions []Condition
	InFlight   []int
	// Warm goes before each measurement and is not measured. Closed is how long the throughput is measured, with that many in
	// flight all the time, Open how long the latency is, at a fixed rate of arrivals.
	Warm, Closed, Open time.Duration
	// Keys are the sizes of the table, in rows, at which payments, replays and refusals as "in progress" are measured with
	// KeysInFlight in flight.
	Keys         []int
	KeysInFlight int
}

func allForms() []Form {
	return []Form{{BareSQL, false}, {GRPC, false}, {GRPC, true}, {REST, false}, {REST, true}}
}

// Full is the whole comparison. It takes about half an hour, and longer with millions of keys.
func Full() Plan {
	const slow = 80 * time.Millisecond
	return Plan{
		Forms:      allForms(),
		Conditions: []Condition{{0, false}, {0, true}, {slow, false}, {slow, true}},
		InFlight:   []int{1, 16, 64, 128, 512},
		Warm:       time.Second, Closed: 5 * time.Second, Open: 5 * time.Second,
		Keys: []int{10_000, 1_000_000}, KeysInFlight: 128,
	}
}

// Quick is a look in a few minutes.
func Quick() Plan {
	return Plan{
		Forms:      allForms(),
		Conditions: []Condition{{}},
		InFlight:   []int{1, 64, 128},
		Warm:       500 * time.Millisecond, Closed: 3 * time.Second, Open: 2 * time.Second,
		Keys: []int{10_000}, KeysInFlight: 128,
	}
}

// mostInFlight is the most that the plan ever has in flight.
func (p Plan) mostInFlight() int {
	most := 0
	if len(p.Keys) > 0 {
		most = p.KeysInFlight
	}
	for _, n := range p.InFlight {
		most = max(most, n)
	}
	return most
}

// steps counts what the progress bar counts.
func (p Plan) steps() int {
	return len(p.Conditions)*len(p.InFlight)*len(p.Forms) + len(p.Keys)*(1+len(p.Forms))
}

// openShare is the share of the measured throughput at which latency is measured: busy, and not yet a queue that only grows.
const openShare = 0.6
