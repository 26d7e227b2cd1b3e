package reconcile_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/internal/psp"
)

// Never seen at the PSP is no verdict while the attempt is young. When it is old, the PSP is made to refuse the key for good, and
// only then does the key end.
func neverSeenIsFinalAfterAWindow(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatewaysim.Config{})
	p := e.stuck()
	if rep := e.pass(); rep.Stuck.TooYoung != 1 || e.state(p) != "processing / " || e.cancels() != 0 {
		t.Errorf("young: %+v, %s, %d cancels", rep.Stuck, e.state(p), e.cancels())
	}
	if err := e.sim.SetFaults(gatewaysim.Faults{Rules: []gatewaysim.Rule{
		{Fault: gatewaysim.ErrorAnswer, Status: 500, Match: gatewaysim.Match{Path: "/charges/cancel"}},
	}}); err != nil {
		t.Fatal(err)
	}
	e.old(p)
	e.expire(p)
	if rep := e.pass(quietly); rep.Stuck.Unknown != 1 || e.state(p) != "processing / " {
		t.Errorf("without the PSP's yes: %+v, %s", rep.Stuck, e.state(p))
	}
	if err := e.sim.ClearFaults(); err != nil {
		t.Fatal(err)
	}
	e.own = e.client(e.sim.URL)
	e.expire(p)
	if rep := e.pass(quietly); rep.Stuck.Abandoned != 1 || e.state(p) != "done 410 abandoned / " {
		t.Errorf("old: %+v, %s", rep.Stuck, e.state(p))
	}
	if res := e.charge(p, "tok_visa"); res.Kind != psp.Cancelled || e.sim.Stats().Charges != 0 {
		t.Errorf("a charge after it: %+v", res)
	}
}

// cancels counts the technical cancels that the PSP was asked for.
func (e *env) cancels() (n int) {
	for _, r := range e.sim.Requests() {
		if r.Path == "/charges/cancel" {
			n++
		}
	}
	return n
}

// Whatever a key ends as, the PSP was asked about that very key in the same pass, and nothing was charged for it.
func everyKeyIsAskedForBeforeItEnds(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatewaysim.Config{})
	var keys []string
	for _, token := range []string{"tok_visa", "tok_declined", "tok_rejected", ""} {
		p := e.stuck()
		keys = append(keys, p.pspKey())
		if token == "" {
			e.old(p)
			continue
		}
		e.charge(p, token)
	}
	before := len(e.sim.Requests())
	if rep := e.pass(quietly); rep.Stuck.Charged != 1 || rep.Stuck.Refused != 2 || rep.Stuck.Abandoned != 1 {
		t.Fatalf("%+v", rep.Stuck)
	}
	asked := map[string]int{}
	for _, r := range e.sim.Requests()[before:] {
		switch {
		case r.Method == "GET" && r.Path == "/charges" && r.IdempotencyKey != "": // not the statement
			asked[r.IdempotencyKey]++
		case r.Method == "POST" && r.Path == "/charges":
			t.Errorf("a charge was sent: %+v", r)
		}
	}
	want := map[string]int{}
	for _, key := range keys {
		want[key] = 1
	}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("look-ups by key (-want +got):\n%s", diff)
	}
}
