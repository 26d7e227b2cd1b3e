package gatewaysim_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	gatewaysim "chargeonce/gateway-sim"
)

// startCharge sends a charge that is not expected to be answered soon. The channel gives its answer.
func (c caller) startCharge(ctx context.Context, key string) <-chan response {
	out := make(chan response, 1)
	go func() { out <- c.do(ctx, "POST", "/charges", chargeBody("tok_visa"), "Idempotency-Key: "+key) }()
	return out
}

func awaitHung(t *testing.T, psp *gatewaysim.Running, n int64) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d requests hang", n), func() bool { return psp.Stats().Hung == n })
}

func TestHungRequestHoldsItsKeyAndChargesNothing(t *testing.T) {
	t.Parallel()
	psp, c := start(t, gatewaysim.Config{})
	setFaults(t, psp, rules(gatewaysim.Rule{Fault: gatewaysim.Hang, Match: gatewaysim.Match{Method: "POST", Path: "/charges", Exact: true}}))
	ctx, hangUp := context.WithCancel(t.Context())
	hung := c.startCharge(ctx, "k")
	awaitHung(t, psp, 1)

	if got := parse[lookup](t, c.lookUp("k").want(t, 200)).Result; got != "processing" {
		t.Errorf("a hung key is %s", got)
	}
	if got := parse[lookup](t, c.cancel("k").want(t, 200)).Result; got != "processing" {
		t.Errorf("a technical cancel of a hung key answers %s", got)
	}
	if got := errorOf(t, c.charge("k").want(t, 409)); got.Type != "key_in_progress" || got.IdempotencyKey != "k" {
		t.Errorf("a second request is answered %+v", got)
	}

	hangUp()
	if r := <-hung; r.err == nil {
		t.Errorf("the hung request was answered %d %s", r.status, r.body)
	}
	awaitHung(t, psp, 0)
	eventually(t, "the key is free", func() bool { return c.lookUp("k").status == http.StatusNotFound })
	if n := len(ledger(t, psp)); n != 0 {
		t.Errorf("%d charges", n)
	}
}

func TestClearedFaultsCutHungRequests(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(*gatewaysim.Running) error{
		"cleared":  func(psp *gatewaysim.Running) error { return psp.ClearFaults() },
		"replaced": func(psp *gatewaysim.Running) error { return psp.SetFaults(gatewaysim.Faults{Seed: 2}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			psp, c := start(t, gatewaysim.Config{})
			setFaults(t, psp, rules(gatewaysim.Rule{Fault: gatewaysim.Hang}))
			hung := c.startCharge(t.Context(), "k")
			awaitHung(t, psp, 1)
			if err := replace(psp); err != nil {
				t.Fatal(err)
			}
			if r := <-hung; r.err == nil {
				t.Errorf("the hung request was answered %d %s", r.status, r.body)
			}
			if n := len(ledger(t, psp)); n != 0 {
				t.Errorf("%d charges", n)
			}
			c.charge("k").want(t, 201)
		})
	}
}

func TestEndOfItsWindowAnswersNoHungRequest(t *testing.T) {
	t.Parallel()
	psp, c := start(t, gatewaysim.Config{})
	setFaults(t, psp, rules(gatewaysim.Rule{Fault: gatewaysim.Hang, Window: gatewaysim.Window{For: gatewaysim.Duration(time.Second)}}))
	ctx, hangUp := context.WithCancel(t.Context())
	hung := c.startCharge(ctx, "k")
	awaitHung(t, psp, 1)
	eventually(t, "the window ends by itself", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		return (<-c.startCharge(ctx, "other")).status/100 == 2
	})
	if got := psp.Stats().Hung; got != 1 {
		t.Errorf("%d requests hang after the window, want 1", got)
	}
	hangUp()
	if r := <-hung; r.err == nil {
		t.Errorf("the hung request was answered %d", r.status)
	}
}

func TestFaultsBeforeTheChargeChargeNothing(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		rule       gatewaysim.Rule
		status     int // 0: no answer
		retryAfter string
	}{
		"default error":    {rule: gatewaysim.Rule{Fault: gatewaysim.ErrorAnswer}, status: 503},
		"status":           {rule: gatewaysim.Rule{Fault: gatewaysim.ErrorAnswer, Status: 429}, status: 429},
		"retry in seconds": {rule: gatewaysim.Rule{Fault: gatewaysim.ErrorAnswer, RetryAfter: gatewaysim.Duration(1500 * time.Millisecond)}, status: 503, retryAfter: "2"},
		"retry at a date": {rule: gatewaysim.Rule{Fault: gatewaysim.ErrorAnswer, RetryAfter: gatewaysim.Duration(time.Hour), RetryAfterDate: true},
			status: 503, retryAfter: "date"},
		"dropped": {rule: gatewaysim.Rule{Fault: gatewaysim.DropConnection}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			psp, c := start(t, gatewaysim.Config{})
			setFaults(t, psp, rules(tt.rule))
			r := c.charge("k")
			if r.status != tt.status || (r.err == nil) != (tt.status != 0) {
				t.Fatalf("answer %d %s (error %v), want %d", r.status, r.body, r.err, tt.status)
			}
			if tt.retryAfter == "date" {
				at, err := http.ParseTime(r.header.Get("Retry-After"))
				if until := time.Until(at); err != nil || until > time.Hour || until < 59*time.Minute {
					t.Errorf("Retry-After %q is in %v (error %v)", r.header.Get("Retry-After"), until, err)
				}
			} else if r.header.Get("Retry-After") != tt.retryAfter {
				t.Errorf("Retry-After %q, want %q", r.header.Get("Retry-After"), tt.retryAfter)
			}
			if err := psp.ClearFaults(); err != nil {
				t.Fatal(err)
			}
			c.lookUp("k").want(t, 404)
			c.charge("k").want(t, 201)
		})
	}
}

func TestLostAnswerIsACharge(t *testing.T) {
	t.Parallel()
	for how, lost := range map[gatewaysim.How]func(*testing.T, response){
		"":                     noAnswer,
		gatewaysim.LostByDrop:  noAnswer,
		gatewaysim.LostByError: func(t *testing.T, r response) { r.want(t, 500) },
		gatewaysim.LostByProxy: func(t *testing.T, r response) {
			if r.want(t, 502); !strings.HasPrefix(r.header.Get("Content-Type"), "text/html") {
				t.Errorf("Content-Type %q", r.header.Get("Content-Type"))
			}
		},
		gatewaysim.LostByGarbage: func(t *testing.T, r response) {
			if r.want(t, 200); !strings.HasPrefix(r.header.Get("Content-Type"), "application/json") {
				t.Errorf("Content-Type %q", r.header.Get("Content-Type"))
			}
		},
		gatewaysim.LostByCut: func(t *testing.T, r response) {
			if r.status != 201 || !strings.Contains(fmt.Sprint(r.err), io.ErrUnexpectedEOF.Error()) || !strings.HasPrefix(r.body, `{"id":"ch_`) {
				t.Errorf("answer %d %q, error %v", r.status, r.body, r.err)
			}
		},
	} {
		t.Run("by "+string(how), func(t *testing.T) {
			t.Parallel()
			psp, c := start(t, gatewaysim.Config{})
			setFaults(t, psp, rules(gatewaysim.Rule{Fault: gatewaysim.LoseAnswer, How: how, Count: 1}))
			lost(t, c.charge("k"))
			charges := ledger(t, psp)
			if len(charges) != 1 {
				t.Fatalf("%d charges, want 1", len(charges))
			}
			if got := parse[gatewaysim.Charge](t, c.charge("k").want(t, 200)).ID; got != charges[0].ID {
				t.Errorf("the key's charge is %s, in the ledger it is %s", got, charges[0].ID)
			}
			stats := psp.Stats()
			if diff := cmp.Diff(gatewaysim.KeyStats{Posts: 2, Charges: 1, AnswersLost: 1}, stats.Keys["k"]); diff != "" || stats.AnswersLost != 1 {
				t.Errorf("%d answers lost; key (-want +got):\n%s", stats.AnswersLost, diff)
			}
		})
	}
}

func noAnswer(t *testing.T, r response) {
	t.Helper()
	if r.err == nil {
		t.Errorf("answered %d %s", r.status, r.body)
	}
}

func TestAnswerLostByHangingLeavesTheKeyFree(t *testing.T) {
	t.Parallel()
	psp, c := start(t, gatewaysim.Config{})
	setFaults(t, psp, rules(gatewaysim.Rule{Fault: gatewaysim.LoseAnswer, How: gatewaysim.LostByHang, Count: 1}))
	ctx, hangUp := context.WithCancel(t.Context())
	hung := c.startCharge(ctx, "k")
	awaitHung(t, psp, 1)
	c.charge("k").want(t, 200)
	hangUp()
	noAnswer(t, <-hung)
	if n := len(ledger(t, psp)); n != 1 {
		t.Errorf("%d charges, want 1", n)
	}
}

func TestFalseAnswersLeaveTheLedgerRight(t *testing.T) {
	t.Parallel()
	for fault, want := range map[gatewaysim.Fault]gatewaysim.Charge{
		gatewaysim.WrongAmount:   {Amount: 2000, Currency: "EUR", IdempotencyKey: "k"},
		gatewaysim.WrongCurrency: {Amount: 1999, Currency: "XTS", IdempotencyKey: "k"},
		gatewaysim.WrongKey:      {Amount: 1999, Currency: "EUR", IdempotencyKey: "k-another"},
	} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			psp, c := start(t, gatewaysim.Config{})
			setFaults(t, psp, rules(gatewaysim.Rule{Fault: fault, Count: 2}))
			told := parse[gatewaysim.Charge](t, c.charge("k").want(t, 201))
			lookedUp := *parse[lookup](t, c.lookUp("k").want(t, 200)).Charge
			for _, got := range []gatewaysim.Charge{told, lookedUp} {
				got = gatewaysim.Charge{Amount: got.Amount, Currency: got.Currency, IdempotencyKey: got.IdempotencyKey}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
			right := parse[gatewaysim.Charge](t, c.charge("k").want(t, 200))
			if diff := cmp.Diff(chargeOf("k", "tok_visa", "succeeded", ""), right, varying); diff != "" {
				t.Errorf("the ledger's charge (-want +got):\n%s", diff)
			}
		})
	}
}

// statuses sends n charges, one after the other, and returns the status of each.
func (c caller) statuses(n int, keyPrefix string) []int {
	var got []int
	for i := range n {
		got = append(got, c.charge(fmt.Sprintf("%s%d", keyPrefix, i)).status)
	}
	return got
}

func TestSkipAndCount(t *testing.T) {
	t.Parallel()
	psp, c := start(t, gatewaysim.Config{})
	setFaults(t, psp, rules(gatewaysim.Rule{Fault: gatewaysim.ErrorAnswer, Skip: 1, Count: 2}))
	if diff := cmp.Diff([]int{201, 503, 503, 201, 201}, c.statuses(5, "k")); diff != "" {
		t.Error(diff)
	}
	want := []gatewaysim.RuleStats{{Fault: gatewaysim.ErrorAnswer, Matched: 5, Hits: 2}}
	if diff := cmp.Diff(want, psp.Stats().Rules); diff != "" {
		t.Error(diff)
	}
}

func TestRate(t *testing.T) {
	t.Parallel()
	psp, c := start(t, gatewaysim.Config{})
	throw := func(prefix string, rate float64) []int {
		f := rules(gatewaysim.Rule{Fault: gatewaysim.ErrorAnswer, Rate: new(rate)})
		f.Seed = 7
		setFaults(t, psp, f)
		return c.statuses(20, prefix)
	}
	first := throw("a", 0.5)
	if !slices.Contains(first, 201) || !slices.Contains(first, 503) {
		t.Errorf("a rate of 0.5 answers %v", first)
	}
	if diff := cmp.Diff(first, throw("b", 0.5)); diff != "" {
		t.Errorf("the same seed differs:\n%s", diff)
	}
	if slices.Contains(throw("c", 0), 503) {
		t.Error("a rate of 0 struck")
	}
	if slices.Contains(throw("d", 1), 201) {
		t.Error("a rate of 1 let one pass")
	}
}

func TestMatch(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		match gatewaysim.Match
		want  [3]int // charge of key a, charge of key b, look-up of key b
	}{
		"all":            {gatewaysim.Match{}, [3]int{503, 503, 503}},
		"method":         {gatewaysim.Match{Method: "GET"}, [3]int{201, 201, 503}},
		"path":           {gatewaysim.Match{Path: "/charges"}, [3]int{503, 503, 503}},
		"other path":     {gatewaysim.Match{Path: "/charges/"}, [3]int{201, 201, 200}},
		"key":            {gatewaysim.Match{IdempotencyKey: "b"}, [3]int{201, 503, 503}},
		"order":          {gatewaysim.Match{OrderID: "o-1"}, [3]int{503, 503, 404}},
		"other order":    {gatewaysim.Match{OrderID: "o-2"}, [3]int{201, 201, 200}},
		"payment method": {gatewaysim.Match{PaymentMethod: "tok_visa"}, [3]int{503, 503, 404}},
		"key and method": {gatewaysim.Match{IdempotencyKey: "b", Method: "POST"}, [3]int{201, 503, 404}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			psp, c := start(t, gatewaysim.Config{})
			setFaults(t, psp, rules(gatewaysim.Rule{Fault: gatewaysim.ErrorAnswer, Match: tt.match}))
			got := [3]int{c.charge("a").status, c.charge("b").status, c.lookUp("b").status}
			if got != tt.want {
				t.Errorf("answers %v, want %v", got, tt.want)
			}
		})
	}
}

func TestWindowBeginsAndEndsByItself(t *testing.T) {
	t.Parallel()
	psp, c := start(t, gatewaysim.Config{})
	setFaults(t, psp, rules(gatewaysim.Rule{Fault: gatewaysim.ErrorAnswer,
		Window: gatewaysim.Window{After: gatewaysim.Duration(time.Second / 2), For: gatewaysim.Duration(time.Second / 2)}}))
	for _, want := range []int{404, 503, 404} {
		eventually(t, fmt.Sprintf("a look-up answers %d", want), func() bool { return c.lookUp("k").status == want })
	}
}

func TestRulesAddUp(t *testing.T) {
	t.Parallel()
	psp, c := start(t, gatewaysim.Config{})
	setFaults(t, psp, rules(
		gatewaysim.Rule{Fault: gatewaysim.WrongAmount},
		gatewaysim.Rule{Fault: gatewaysim.WrongCurrency},
		gatewaysim.Rule{Fault: gatewaysim.ErrorAnswer, Skip: 1},
		gatewaysim.Rule{Fault: gatewaysim.DropConnection, Skip: 1},
	))
	if got := parse[gatewaysim.Charge](t, c.charge("k").want(t, 201)); got.Amount != 2000 || got.Currency != "XTS" {
		t.Errorf("told %d %s", got.Amount, got.Currency)
	}
	c.charge("k").want(t, 503) // the first that strikes ends the list
}

func TestLatencyWorksOnThoughTheCallerLeaves(t *testing.T) {
	t.Parallel()
	psp, c := start(t, gatewaysim.Config{Latency: gatewaysim.Fixed(time.Second)})
	ctx, leave := context.WithCancel(t.Context())
	left := c.startCharge(ctx, "k")
	eventually(t, "the request works", func() bool { return c.lookUp("k").status == 200 })
	if got := parse[lookup](t, c.lookUp("k").want(t, 200)).Result; got != "processing" {
		t.Fatalf("the key is %s", got)
	}
	c.charge("k").want(t, 409)
	leave()
	noAnswer(t, <-left)
	eventually(t, "the charge is made", func() bool { return parse[lookup](t, c.lookUp("k").want(t, 200)).Result == "charged" })
	c.charge("k").want(t, 200)
	if n := len(ledger(t, psp)); n != 1 {
		t.Errorf("%d charges, want 1", n)
	}
}

// A rule that strikes once must strike a request that works, not one that is told to wait.
func TestRulesDoNotSeeRequestsThatFindTheirKeyBusy(t *testing.T) {
	t.Parallel()
	psp, c := start(t, gatewaysim.Config{})
	setFaults(t, psp, rules(gatewaysim.Rule{Fault: gatewaysim.Hang, Count: 1}))
	ctx, hangUp := context.WithCancel(t.Context())
	hung := c.startCharge(ctx, "k")
	awaitHung(t, psp, 1)
	c.charge("k").want(t, 409)
	if got := psp.Stats().Rules[0].Matched; got != 1 {
		t.Errorf("the rule has seen %d requests, want 1", got)
	}
	hangUp()
	noAnswer(t, <-hung)
}
