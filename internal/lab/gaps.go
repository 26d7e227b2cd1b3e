package lab

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	paymentsv1 "chargeonce/api/payments/v1"
	"chargeonce/api/payments/v1/client"
	gatewaysim "chargeonce/gateway-sim"
)

var gapsExperiment = Experiment{
	Name:  "gaps",
	Title: "Servers killed, answers and webhooks lost, users who never come back; then two reconciliations at once",
	Shows: `Every user tries once and leaves. Servers are killed (SIGKILL) while requests wait for the PSP, the PSP loses one answer
in ten, and its webhooks come late, four times each, out of order, or not at all. Nobody is left to ask but reconciliation: two
processes at once settle every key, find every charge, and raise no alarm while webhooks are still on their way. Then a payment row
is deleted by hand. As long as the key is there that made it, the row is written again; when the key is gone too, nobody can say
whose charge that is, and a person is called (exit status 1).`,
	Proof: true,
	Ours:  true,
	Bound: 4 * time.Minute,
	Run:   runGaps,
}

// gapsPlan is how much of it there is.
type gapsPlan struct {
	purchases, atOnce int
	// late is how long a webhook may be on its way.
	late time.Duration
}

const (
	// killShare is the least share of the requests that are killed before their finish; a little more is aimed at.
	killShare, killAim = 0.10, 0.12
	lostAnswerShare    = 0.10
	droppedShare       = 0.05
	// extraDeliveries is how often each event is repeated.
	extraDeliveries = 3

	// gapTry is the deadline of a request. With the servers' own waits it bounds the leases of those that are killed.
	gapTry          = 3 * time.Second
	gapPSPLatencyLo = 50 * time.Millisecond
	gapPSPLatencyHi = 250 * time.Millisecond
)

func runGaps(ctx context.Context, env Env, o Options) (r Report, err error) {
	plan := pick(o, gapsPlan{purchases: 5000, atOnce: 32, late: 5 * time.Second}, gapsPlan{purchases: 150, atOnce: 16, late: 2 * time.Second})
	err = env.withService(ctx, func(s *site) (err error) {
		f, err := s.newFleet(ctx, "one", "two")
		if err != nil {
			return err
		}
		if err := s.psp.sim.SetWebhookURL(ctx, f.servers[0].at.WebhookURL()); err != nil {
			return err
		}
		lost := lostAnswerShare
		if err := s.psp.fresh(ctx, gatewaysim.Faults{
			Seed: o.Seed, Latency: gatewaysim.Uniform(gapPSPLatencyLo, gapPSPLatencyHi),
			Rules:    []gatewaysim.Rule{{Fault: gatewaysim.LoseAnswer, Match: onCharges(), Rate: &lost}},
			Webhooks: gatewaysim.WebhookFaults{Shuffle: gatewaysim.Duration(plan.late), Repeat: extraDeliveries, DropRate: droppedShare},
		}); err != nil {
			return err
		}
		g := &gaps{site: s, plan: plan, fleet: f}
		if err := g.shop(ctx); err != nil {
			return err
		}
		if err := g.reportShopping(ctx, &r); err != nil {
			return err
		}
		if err := g.reconcileUntilQuiet(ctx, &r); err != nil {
			return err
		}
		if err := g.checkBooks(ctx, &r); err != nil {
			return err
		}
		return g.deleteByHand(ctx, &r)
	}, "--webhook-speedup", "1000", "--pending-after", "1s")
	return r, err
}

// gaps is one run of the experiment.
type gaps struct {
	*site
	plan  gapsPlan
	fleet *fleet

	mu      sync.Mutex
	answers map[string]int64 // what the clients were told, and how many of them
	paid    []string         // the payment ids that clients were told
	took    time.Duration
}

// gapToken is what the i-th purchase is paid with: of twenty, two are pending first, one of them fails, and one is declined.
func gapToken(i int) string {
	switch i % 20 {
	case 3:
		return "tok_pending"
	case 7:
		return "tok_pending_fails"
	case 11:
		return "tok_declined"
	}
	return "tok_visa"
}

func gapIntent(i int) client.Intent {
	return client.NewIntent(&paymentsv1.CreatePaymentRequest{
		OrderId: fmt.Sprintf("gap-%d", i), Amount: int64(1000 + i), Currency: "EUR", PaymentMethod: gapToken(i), Description: "lab",
	})
}

// shop makes the purchases, each with one try, while servers are killed and started again.
func (g *gaps) shop(ctx context.Context) (err error) {
	c, err := client.New(client.Config{APIKey: g.apiKey, BaseURL: g.fleet.servers[0].at.URL(), HTTP: g.fleet, TryTimeout: gapTry, MaxTries: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	g.answers = map[string]int64{}
	began := time.Now()
	killing, stop := context.WithCancel(ctx)
	defer stop()
	killed := make(chan error, 1)
	go func() { killed <- g.fleet.killNowAndThen(killing, killAim, g.plan.atOnce) }()
	err = crowd(ctx, g.plan.purchases, g.plan.atOnce, func(ctx context.Context, i int) error {
		t := payWith(ctx, c, gapIntent(i))
		if t.err != nil {
			return t.err
		}
		if t.payment != nil && i%10 == 0 {
			// News of a charge that overtakes older news: its first event is still on its way.
			if err := g.psp.void(ctx, t.payment.GetChargeId()); err != nil {
				return err
			}
		}
		g.note(t)
		return nil
	})
	stop()
	err = errors.Join(err, <-killed)
	g.took = time.Since(began)
	return err
}

func (g *gaps) note(t told) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.answers[t.String()]++
	if t.payment != nil {
		g.paid = append(g.paid, t.payment.GetId())
	}
}
