package gatewaysim_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	gatewaysim "chargeonce/gateway-sim"
)

// randomFaults makes some faults of every kind.
func randomFaults(random *rand.Rand) gatewaysim.Faults {
	kinds := []gatewaysim.Fault{gatewaysim.Hang, gatewaysim.ErrorAnswer, gatewaysim.DropConnection, gatewaysim.SlowAnswer, gatewaysim.LoseAnswer}
	hows := []gatewaysim.How{gatewaysim.LostByDrop, gatewaysim.LostByHang, gatewaysim.LostByError, gatewaysim.LostByCut,
		gatewaysim.LostByProxy, gatewaysim.LostByGarbage}
	f := gatewaysim.Faults{Seed: random.Uint64()}
	for range 1 + random.IntN(5) {
		rule := gatewaysim.Rule{Fault: kinds[random.IntN(len(kinds))], Rate: new(0.6 * random.Float64())}
		switch rule.Fault {
		case gatewaysim.SlowAnswer:
			rule.Latency = gatewaysim.Uniform(0, 10*time.Millisecond)
		case gatewaysim.LoseAnswer:
			rule.How = hows[random.IntN(len(hows))]
		}
		f.Rules = append(f.Rules, rule)
	}
	return f
}

// One key makes at most one charge, and every caller who is told of a charge is told of that one, whatever the faults, the
// interleaving and the callers who leave.
func TestOneKeyMakesAtMostOneCharge(t *testing.T) {
	t.Parallel()
	psp, c := start(t, gatewaysim.Config{})
	const rounds, keys, callers = 20, 4, 4
	for round := range rounds {
		setFaults(t, psp, randomFaults(rand.New(rand.NewPCG(uint64(round), 0))))
		key := func(k int) string { return fmt.Sprintf("round %d key %d", round, k) }
		told := make([]sync.Map, keys)
		var all sync.WaitGroup
		for k := range keys {
			for range callers {
				all.Go(func() {
					for range 3 {
						ctx, leave := context.WithTimeout(t.Context(), 15*time.Millisecond)
						r := c.do(ctx, "POST", "/charges", chargeBody("tok_visa"), "Idempotency-Key: "+key(k))
						leave()
						if r.err == nil && r.status == http.StatusCreated {
							told[k].Store(parse[gatewaysim.Charge](t, r).ID, true)
						}
					}
				})
			}
		}
		all.Wait()
		if err := psp.ClearFaults(); err != nil {
			t.Fatal(err)
		}

		// Requests whose callers left may still be working; a key says so until they have ended.
		for k := range keys {
			var charge gatewaysim.Charge
			eventually(t, "the key can be charged", func() bool {
				r := c.charge(key(k))
				if r.err == nil && r.status/100 == 2 {
					charge = parse[gatewaysim.Charge](t, r)
				}
				return charge.ID != ""
			})
			told[k].Range(func(id, _ any) bool {
				if id != charge.ID {
					t.Errorf("round %d: key %q is charged as %s, a caller was told %s", round, key(k), charge.ID, id)
				}
				return true
			})
		}
	}
	perKey := map[string]int{}
	for _, charge := range ledger(t, psp) {
		perKey[charge.IdempotencyKey]++
	}
	for key, n := range perKey {
		if n != 1 {
			t.Errorf("key %q has %d charges", key, n)
		}
	}
	if len(perKey) != rounds*keys {
		t.Errorf("%d keys have charges, want %d", len(perKey), rounds*keys)
	}
}

func TestTechnicalCancelAndChargeHaveOneWinner(t *testing.T) {
	t.Parallel()
	psp, c := start(t, gatewaysim.Config{})
	wins := map[string]int{}
	for round := range 200 {
		key := fmt.Sprintf("k%d", round)
		var charged, canceled response
		var both sync.WaitGroup
		begin := make(chan struct{})
		both.Go(func() { <-begin; charged = c.charge(key) })
		both.Go(func() { <-begin; canceled = c.cancel(key) })
		close(begin)
		both.Wait()

		after := parse[lookup](t, c.lookUp(key).want(t, 200)).Result
		wins[after]++
		told := parse[lookup](t, canceled.want(t, 200)).Result
		switch {
		case after == "charged" && charged.status == 201 && (told == "charged" || told == "processing"):
		case after == "canceled" && charged.status == 410 && told == "canceled":
		default:
			t.Fatalf("the key is %s; the charge was told %d, the cancel %s", after, charged.status, told)
		}
	}
	if got := len(ledger(t, psp)); got != wins["charged"] {
		t.Errorf("%d charges, %d keys charged", got, wins["charged"])
	}
	t.Logf("who won: %v", wins)
}

// The cancel that comes while a charge is on its way past the first look must win or lose as a whole.
func TestTechnicalCancelDuringLatency(t *testing.T) {
	t.Parallel()
	psp, c := start(t, gatewaysim.Config{})
	setFaults(t, psp, rules(gatewaysim.Rule{Fault: gatewaysim.SlowAnswer, Latency: gatewaysim.Fixed(time.Second / 2),
		Match: gatewaysim.Match{Path: "/charges", Exact: true, Method: "POST"}}))
	charging := c.startCharge(t.Context(), "k")
	eventually(t, "the charge is working", func() bool { return c.lookUp("k").status == 200 })
	if got := parse[lookup](t, c.cancel("k").want(t, 200)).Result; got != "processing" {
		t.Errorf("the cancel is told %s", got)
	}
	(<-charging).want(t, 201)
	if got := parse[lookup](t, c.cancel("k").want(t, 200)).Result; got != "charged" {
		t.Errorf("a later cancel is told %s", got)
	}
}

func TestStatement(t *testing.T) {
	t.Parallel()
	psp, c := start(t, gatewaysim.Config{})
	const before, during = 250, 100
	for i := range before {
		c.charge(fmt.Sprintf("before %d", i)).want(t, 201)
	}
	first := ledger(t, psp)

	// Charges go on arriving while the pages are read.
	var arriving sync.WaitGroup
	arriving.Go(func() {
		for i := range during {
			if r := c.charge(fmt.Sprintf("during %d", i)); r.status != 201 {
				t.Errorf("answer %d (error %v)", r.status, r.err)
			}
		}
	})
	type page struct {
		Data       []gatewaysim.Charge `json:"data"`
		NextCursor string              `json:"next_cursor"`
	}
	read := func(query string) page { return parse[page](t, c.get("/charges?"+query).want(t, 200)) }
	var seen []gatewaysim.Charge
	for query := "limit=7"; ; {
		p := read(query)
		seen = append(seen, p.Data...)
		if p.NextCursor == "" {
			break
		}
		query = "limit=7&cursor=" + p.NextCursor
	}
	arriving.Wait()

	all := ledger(t, psp)
	if len(all) != before+during {
		t.Fatalf("%d charges, want %d", len(all), before+during)
	}
	for i, charge := range all {
		if i > 0 && !charge.CreatedAt.After(all[i-1].CreatedAt.Time) {
			t.Fatalf("charge %d is no younger than the one before", i)
		}
	}
	if len(seen) < before {
		t.Fatalf("%d charges seen, want %d at least", len(seen), before)
	}
	for i, charge := range seen {
		if charge.ID != all[i].ID {
			t.Fatalf("place %d of the statement is %s, in the ledger it is %s", i, charge.ID, all[i].ID)
		}
	}

	after := func(i int) string { return "created_after=" + first[i].CreatedAt.Format(time.RFC3339Nano) }
	if got := read(after(100) + "&limit=1").Data; len(got) != 1 || got[0].ID != first[101].ID {
		t.Errorf("strictly after charge 100: %+v, want %s", got, first[101].ID)
	}
	if got := read("limit=1000"); len(got.Data) != len(all) || got.NextCursor != "" {
		t.Errorf("one page holds %d, next %q", len(got.Data), got.NextCursor)
	}
	if got := len(read("").Data); got != 100 {
		t.Errorf("the default page holds %d", got)
	}
	last := all[len(all)-1].CreatedAt
	if got := read("created_after=" + last.Format(time.RFC3339Nano)); len(got.Data) != 0 || got.NextCursor != "" {
		t.Errorf("after the last charge: %+v", got)
	}
	if p := read(after(100) + "&limit=1"); p.NextCursor == "" || read(after(100) + "&limit=1&cursor=" + p.NextCursor).Data[0].ID != first[102].ID {
		t.Error("cursor and created_after do not go together")
	}
	for _, bad := range []string{"limit=0", "limit=1001", "limit=x", "cursor=x", "cursor=ch_0", "created_after=yesterday"} {
		c.get("/charges?"+bad).want(t, 400)
	}
}
