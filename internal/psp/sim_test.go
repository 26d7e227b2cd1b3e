package psp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/internal/telemetry"

	"github.com/google/go-cmp/cmp"
)

// simClient makes a client of a simulated PSP. Its waits are short, and its attempts have time enough on a busy machine.
func simClient(t *testing.T, sim *gatewaysim.Running, cfg Config) *Client {
	t.Helper()
	cfg.BaseURL, cfg.APIKey = sim.URL, telemetry.Secret(sim.APIKey)
	cfg.Logger = slog.New(slog.DiscardHandler)
	setDefault(&cfg.AttemptTimeout, 10*time.Second)
	setDefault(&cfg.BackoffBase, time.Millisecond)
	setDefault(&cfg.BackoffCap, 20*time.Millisecond)
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// request is testRequest under another key, with a token of the simulator's.
func request(key, token string) ChargeRequest {
	req := testRequest
	req.Key, req.PaymentMethod = key, token
	return req
}

func rate(share float64) *float64 { return &share }

func TestSimTokensDecideAndLookUpsAgree(t *testing.T) {
	t.Parallel()
	sim := gatewaysim.Start(t, gatewaysim.Config{PendingAfter: time.Hour})
	c := simClient(t, sim, Config{})
	ctx := within(t, 20*time.Second)
	for token, want := range map[string]struct {
		kind Kind
		code string
	}{
		"tok_visa":               {Succeeded, ""},
		"tok_pending":            {Pending, ""},
		"tok_declined":           {Declined, "do_not_honor"},
		"tok_insufficient_funds": {Declined, "insufficient_funds"},
		"tok_nobody_knows":       {Declined, "invalid_payment_method"},
		"tok_rejected":           {Rejected, "blocked"},
	} {
		req := request(token, token)
		first := c.Charge(ctx, req)
		if first.Kind != want.kind || first.Code != want.code || first.Attempts != 1 || first.Kind.HasCharge() != (first.Charge != nil) {
			t.Errorf("%s: got %+v", token, first)
		}
		for name, again := range map[string]Result{
			"charge": c.Charge(ctx, req), "look-up": c.LookUp(ctx, req.Key, req.Expect()), "cancel": c.Cancel(ctx, req.Key, req.Expect()),
		} {
			if diff := cmp.Diff(first, again); diff != "" {
				t.Errorf("%s, %s again: want (-), got (+):\n%s", token, name, diff)
			}
		}
		if first.Charge != nil {
			if first.Charge.Metadata != req.Metadata || first.Charge.CreatedAt.IsZero() {
				t.Errorf("%s: got %+v", token, first.Charge)
			}
			got, err := c.Get(ctx, first.Charge.ID)
			if diff := cmp.Diff(*first.Charge, got); err != nil || diff != "" {
				t.Errorf("%s by id: %v; want (-), got (+):\n%s", token, err, diff)
			}
		}
	}
}

func TestSimACancelledKeyIsRefusedAndAnUnseenOneIsSaidToBe(t *testing.T) {
	t.Parallel()
	sim := gatewaysim.Start(t, gatewaysim.Config{})
	c := simClient(t, sim, Config{})
	ctx := within(t, 20*time.Second)
	req := request("k", "tok_visa")
	var got []Kind
	for _, ask := range []func() Result{
		func() Result { return c.LookUp(ctx, "k", req.Expect()) },
		func() Result { return c.Cancel(ctx, "k", req.Expect()) },
		func() Result { return c.Cancel(ctx, "k", req.Expect()) },
		func() Result { return c.Charge(ctx, req) },
		func() Result { return c.LookUp(ctx, "k", req.Expect()) },
	} {
		got = append(got, ask().Kind)
	}
	if diff := cmp.Diff([]Kind{NeverSeen, Cancelled, Cancelled, Cancelled, Cancelled}, got); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
	if _, err := c.Get(ctx, "ch_nobody"); !errors.Is(err, ErrNoSuchCharge) {
		t.Errorf("got %v, want ErrNoSuchCharge", err)
	}
}

// TestSimOtherParametersUnderOneKey: the PSP answers 422, and the look-up tells which charge is there.
func TestSimOtherParametersUnderOneKey(t *testing.T) {
	t.Parallel()
	sim := gatewaysim.Start(t, gatewaysim.Config{})
	c := simClient(t, sim, Config{})
	ctx := within(t, 20*time.Second)
	c.Charge(ctx, request("k", "tok_visa"))

	other := request("k", "tok_visa")
	other.Amount = 5
	r := c.Charge(ctx, other)
	if r.Kind != Mismatch || r.Charge == nil || r.Charge.Amount != 1999 || r.Attempts != 2 {
		t.Errorf("another amount: got %+v", r)
	}
	if r := c.Charge(ctx, request("k", "tok_mastercard")); r.Kind != Succeeded || r.Attempts != 2 {
		t.Errorf("another token, which no charge tells: got %+v", r)
	}
	if r := c.LookUp(ctx, "k", Expect{Amount: 1999, Currency: "EUR", UserID: 43, OrderID: "o-1"}); r.Kind != Mismatch {
		t.Errorf("another user: got %+v", r)
	}
	c.Charge(ctx, request("d", "tok_declined"))
	if r := c.Charge(ctx, request("d", "tok_visa")); r.Kind != Declined {
		t.Errorf("declined with another token: got %+v", r)
	}
}

// TestSimALostAnswerIsFoundByTheRetry: in every way that an answer can be lost, there is one charge, and the retry learns of it.
func TestSimALostAnswerIsFoundByTheRetry(t *testing.T) {
	t.Parallel()
	for _, how := range []gatewaysim.How{
		gatewaysim.LostByDrop, gatewaysim.LostByHang, gatewaysim.LostByCut, gatewaysim.LostByProxy, gatewaysim.LostByError,
	} {
		t.Run(string(how), func(t *testing.T) {
			t.Parallel()
			rule := gatewaysim.Rule{Fault: gatewaysim.LoseAnswer, How: how, Count: 1}
			if how == gatewaysim.LostByError {
				rule.Status = 503
			}
			sim := gatewaysim.Start(t, gatewaysim.Config{Faults: &gatewaysim.Faults{Rules: []gatewaysim.Rule{rule}}})
			var cfg Config
			if how == gatewaysim.LostByHang {
				cfg.AttemptTimeout = 500 * time.Millisecond
			}
			c := simClient(t, sim, cfg)
			r := c.Charge(within(t, 20*time.Second), request("k", "tok_visa"))
			if r.Kind != Succeeded || r.Attempts != 2 {
				t.Errorf("got %+v", r)
			}
			if diff := cmp.Diff(gatewaysim.KeyStats{Posts: 2, Charges: 1, AnswersLost: 1}, sim.Stats().Keys["k"]); diff != "" {
				t.Errorf("want (-), got (+):\n%s", diff)
			}
		})
	}
}

// TestSimAnAnswerThatSaysAnotherChargeIsAMismatch covers a 2xx that is no verdict on what was asked.
func TestSimAnAnswerThatSaysAnotherChargeIsAMismatch(t *testing.T) {
	t.Parallel()
	for _, fault := range []gatewaysim.Fault{gatewaysim.WrongAmount, gatewaysim.WrongCurrency, gatewaysim.WrongKey} {
		sim := gatewaysim.Start(t, gatewaysim.Config{Faults: &gatewaysim.Faults{Rules: []gatewaysim.Rule{{Fault: fault}}}})
		c := simClient(t, sim, Config{})
		if r := c.Charge(within(t, 20*time.Second), request("k", "tok_visa")); r.Kind != Mismatch || r.Charge == nil || r.Attempts != 1 {
			t.Errorf("%s: got %+v", fault, r)
		}
	}
}

// TestSimAKeyInProgressIsWaitedFor: of two requests under one key the second finds the first at work, and tells its outcome.
func TestSimAKeyInProgressIsWaitedFor(t *testing.T) {
	t.Parallel()
	sim := gatewaysim.Start(t, gatewaysim.Config{Latency: gatewaysim.Fixed(300 * time.Millisecond)})
	c := simClient(t, sim, Config{})
	ctx := within(t, 20*time.Second)
	results := background(5, func() Result { return c.Charge(ctx, request("k", "tok_visa")) })
	ids := map[string]bool{}
	for _, r := range results() {
		if r.Kind != Succeeded {
			t.Fatalf("got %+v", r)
		}
		ids[r.Charge.ID] = true
	}
	if stats := sim.Stats().Keys["k"]; len(ids) != 1 || stats.Charges != 1 {
		t.Errorf("charges %v, stats %+v", ids, stats)
	}
}

// TestSimARequestOf300msAgainstAPSPThatTakesTwoSeconds: the answer is there first, by the order of events, and a retry learns of the charge.
func TestSimARequestOf300msAgainstAPSPThatTakesTwoSeconds(t *testing.T) {
	t.Parallel()
	sim := gatewaysim.Start(t, gatewaysim.Config{Latency: gatewaysim.Fixed(2 * time.Second)})
	c := simClient(t, sim, Config{})
	start := time.Now()
	r := c.Charge(within(t, 300*time.Millisecond), request("k", "tok_visa"))
	took := time.Since(start)
	if stats := sim.Stats(); r.Kind != Unknown || !errors.Is(r.Err, context.DeadlineExceeded) || stats.Charges != 0 {
		t.Fatalf("after %v and %d charges, got %+v", took, stats.Charges, r)
	}
	t.Logf("answered after %v, the PSP takes 2s", took)
	if r := c.Charge(within(t, 20*time.Second), request("k", "tok_visa")); r.Kind != Succeeded {
		t.Errorf("the retry got %+v", r)
	}
	if got := sim.Stats().Keys["k"].Charges; got != 1 {
		t.Errorf("%d charges", got)
	}
}

// TestSimThirtyPercentOfTheAnswersLost: every purchase that is asked for until it is final is charged once.
func TestSimThirtyPercentOfTheAnswersLost(t *testing.T) {
	t.Parallel()
	const purchases, atOnce = 200, 16
	sim := gatewaysim.Start(t, gatewaysim.Config{Faults: &gatewaysim.Faults{Seed: 1, Rules: []gatewaysim.Rule{
		{Fault: gatewaysim.LoseAnswer, Rate: rate(0.3), Match: gatewaysim.Match{Method: "POST"}},
	}}})
	c := simClient(t, sim, Config{OpenFor: 5 * time.Millisecond})
	ctx := within(t, 60*time.Second)
	keys := make(chan string)
	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() {
			for key := range keys {
				for ctx.Err() == nil {
					r := c.Charge(ctx, request(key, "tok_visa"))
					if r.Kind == Succeeded {
						break
					}
					if r.Kind.Final() || r.Kind == Mismatch {
						t.Errorf("%s: got %+v", key, r)
						break
					}
					if err := sleep(ctx, r.RetryAfter); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	for i := range purchases {
		keys <- fmt.Sprintf("purchase-%d", i)
	}
	close(keys)
	workers.Wait()
	stats := sim.Stats()
	if stats.Charges != purchases || stats.AnswersLost == 0 {
		t.Errorf("%d charges for %d purchases, %d answers lost", stats.Charges, purchases, stats.AnswersLost)
	}
	for key, k := range stats.Keys {
		if k.Charges != 1 {
			t.Errorf("%s was charged %d times", key, k.Charges)
		}
	}
}

func TestSimStatementIsPagedToItsEnd(t *testing.T) {
	t.Parallel()
	sim := gatewaysim.Start(t, gatewaysim.Config{})
	c := simClient(t, sim, Config{})
	ctx := within(t, 20*time.Second)
	var want []string
	for i := range 7 {
		r := c.Charge(ctx, request(fmt.Sprintf("k%d", i), "tok_visa"))
		if r.Kind != Succeeded {
			t.Fatalf("got %+v", r)
		}
		want = append(want, r.Charge.ID)
	}
	var got []string
	var sizes []int
	var second time.Time
	for cursor, more := "", true; more; {
		page, err := c.Statement(ctx, time.Time{}, cursor, 3)
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, len(page.Charges))
		for _, ch := range page.Charges {
			got = append(got, ch.ID)
			if len(got) == 2 {
				second = ch.CreatedAt
			}
		}
		cursor, more = page.NextCursor, page.NextCursor != "" && len(sizes) < 10
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
	if diff := cmp.Diff([]int{3, 3, 1}, sizes); diff != "" {
		t.Errorf("pages: want (-), got (+):\n%s", diff)
	}
	page, err := c.Statement(ctx, second, "", 0)
	if err != nil || len(page.Charges) != 5 || page.Charges[0].ID != want[2] {
		t.Errorf("after the second: %v, %+v", err, page)
	}
}

func TestSimWarmOpensTheConnectionsThatChargesUse(t *testing.T) {
	t.Parallel()
	sim := gatewaysim.Start(t, gatewaysim.Config{})
	c := simClient(t, sim, Config{Slots: 12})
	if err := c.Warm(within(t, 20*time.Second)); err != nil {
		t.Fatal(err)
	}
	ctx := within(t, 20*time.Second)
	var n int64
	for range 20 {
		n++
		if r := c.Charge(ctx, request(fmt.Sprintf("k%d", n), "tok_visa")); r.Kind != Succeeded {
			t.Fatalf("got %+v", r)
		}
	}
	if stats := sim.Stats(); stats.ConnectionsOpened != 12 || stats.GrpcTimeouts != n {
		t.Errorf("%d connections, %d Grpc-Timeouts", stats.ConnectionsOpened, stats.GrpcTimeouts)
	}
}
