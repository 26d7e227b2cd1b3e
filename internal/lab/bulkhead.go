package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	paymentsv1 "chargeonce/api/payments/v1"
	"chargeonce/api/payments/v1/client"
	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/internal/rig"
)

var bulkheadExperiment = with(Experiment{
	Name:  "bulkhead",
	Title: "A dependency that hangs: what the other one's calls see, without and with slots of its own; and a PSP that hangs, with every slot taken",
	Shows: `Where calls to all dependencies share one pool, the one that hangs takes every place in it, and calls to the other one,
which is well, are turned away. With slots of its own each dependency can only hold its own. So it is in the service: purchases
wait for a PSP that hangs, as many as there are slots, and the next one is told OVERLOADED at once. They hold a slot each and
nothing else: no connection of the database, of which this server has fewer than slots. So whatever needs no slot works as on any
other day. Once the PSP is well again, each purchase is charged once.`,
	Proof: true,
	Bound: time.Minute,
	Code:  []string{"internal/psp/bulkhead.go", "internal/payment/flow.go", "internal/lab/bulkheadpools.go"},
}, bulkheadNumbers{Slots: 8, Connections: 4, Calls: 300, PerSecond: 100, Pool: 20, Timeout: time.Second},
	bulkheadNumbers{Slots: 8, Connections: 4, Calls: 60, PerSecond: 60, Pool: 8, Timeout: 400 * time.Millisecond}, runBulkhead)

// bulkheadNumbers are the server's, and those of two dependencies that share a pool or do not.
type bulkheadNumbers struct {
	Slots       int           `help:"Slots of the server for calls to the PSP, all of which are taken." max:"64"`
	Connections int           `help:"Its database connections." min:"2" max:"64"`
	Calls       int           `help:"Calls to each of two dependencies, one of which hangs." max:"10000"`
	PerSecond   int           `help:"Calls per second to each."`
	Pool        int           `help:"Places in the pool that both share, or that are split between them." min:"2" max:"1000"`
	Timeout     time.Duration `help:"The time-out of these calls."`
}

// bulkheadPatience is how long purchases wait: the server has a slow mark and time-outs so late that its slots stay taken.
const bulkheadPatience = 25 * time.Second

func (n bulkheadNumbers) flags() []string {
	return []string{"--psp-slots", fmt.Sprint(n.Slots), "--mysql-max-open", fmt.Sprint(n.Connections),
		"--psp-attempt-timeout", "20s", "--psp-slow", "20s", "--default-deadline", "30s", "--max-deadline", "30s"}
}

func runBulkhead(ctx context.Context, env Env, _ Options, n bulkheadNumbers) (r Report, err error) {
	if err := n.pools(ctx, &r); err != nil {
		return r, err
	}
	err = env.withService(ctx, func(s *site) (err error) {
		at, err := s.rig.StartServer(ctx, "server", s.psp.sim, n.flags()...)
		if err != nil {
			return err
		}
		reader, err := client.New(s.overREST(at))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, reader.Close()) }()
		b := &bulkheadRun{site: s, slots: n.Slots, at: at, reader: reader, table: Table{
			Title: fmt.Sprintf("With %d of %d slots taken by calls that hang, and %d database connections",
				n.Slots, n.Slots, n.Connections),
			Columns: []string{"", "what comes of it", "took"},
		}}
		if err := b.before(ctx); err != nil {
			return err
		}
		if err := b.during(ctx, &r); err != nil {
			return err
		}
		r.Tables = append(r.Tables, b.table)
		return s.onceEach(ctx, &r, "in the end", b.orders...)
	})
	return r, err
}

type bulkheadRun struct {
	*site
	slots  int
	at     *rig.Server
	reader *client.Client
	table  Table

	paid   *paymentsv1.Payment
	stuck  client.Intent
	orders []string // all that must be charged once in the end
}

func (b *bulkheadRun) intent(order string) client.Intent {
	b.orders = append(b.orders, order)
	return newIntent(order)
}

// before makes a payment, and a purchase that was charged but not recorded, for reconciliation to find.
func (b *bulkheadRun) before(ctx context.Context) error {
	if err := b.psp.sim.SetWebhookURL(ctx, b.at.WebhookURL()); err != nil {
		return err
	}
	paid := b.pay(ctx, b.overREST(b.at), b.intent("paid"))
	if paid.err != nil || paid.payment == nil {
		return fmt.Errorf("the first purchase: %s: %w", paid, paid.err)
	}
	b.paid = paid.payment

	b.stuck = b.intent("stuck")
	noWebhook := gatewaysim.WebhookFaults{DropRate: 1}
	if err := b.psp.fresh(ctx, gatewaysim.Faults{Webhooks: noWebhook, Rules: []gatewaysim.Rule{
		{Fault: gatewaysim.LoseAnswer, How: gatewaysim.LostByError, Match: onCharges()},
	}}); err != nil {
		return err
	}
	once := b.overREST(b.at)
	once.MaxTries = 1
	if got := b.pay(ctx, once, b.stuck); got.err != nil || got.String() != paymentsv1.Reason_PSP_OUTCOME_UNKNOWN.String() {
		return fmt.Errorf("a purchase whose answer was lost: %s: %w", got, got.err)
	}
	return nil
}

// during takes every slot, shows what goes on, and lets the PSP be well again.
func (b *bulkheadRun) during(ctx context.Context, r *Report) error {
	if err := b.psp.fresh(ctx, gatewaysim.Faults{Rules: []gatewaysim.Rule{{Fault: gatewaysim.Hang, Match: onCharges()}}}); err != nil {
		return err
	}
	got := make([]told, b.slots)
	var waiting sync.WaitGroup
	defer waiting.Wait()
	bounded, cancel := context.WithTimeout(ctx, bulkheadPatience)
	defer cancel()
	for i := range got {
		intent := b.intent(fmt.Sprintf("waits-%d", i))
		waiting.Go(func() {
			cfg := b.overREST(b.at)
			cfg.TryTimeout = bulkheadPatience
			got[i] = b.pay(bounded, cfg, intent)
		})
	}
	if err := until(ctx, "every slot to be taken", b.allHang(ctx)); err != nil {
		return err
	}
	if err := b.show(ctx, r); err != nil {
		return err
	}
	stats, err := b.psp.stats(ctx)
	if err != nil {
		return err
	}
	r.equal("slots still taken after all of it", int64(b.slots), stats.Hung)
	if err := b.psp.setFaults(ctx, gatewaysim.Faults{}); err != nil {
		return err
	}
	waiting.Wait()
	var charged int64
	for _, g := range got {
		if g.err != nil {
			return g.err
		}
		if g.payment != nil {
			charged++
		}
	}
	r.equal("purchases that waited and are charged in the end", int64(b.slots), charged)
	return nil
}

func (b *bulkheadRun) allHang(ctx context.Context) func() (bool, error) {
	return func() (bool, error) {
		stats, err := b.psp.stats(ctx)
		return stats.Hung == int64(b.slots), err
	}
}

// show does what must go on, one thing after another.
func (b *bulkheadRun) show(ctx context.Context, r *Report) error {
	for _, step := range []struct {
		what, want string
		do         func(context.Context) (string, error)
	}{
		{"one more purchase", paymentsv1.Reason_OVERLOADED.String(), b.oneMore},
		{"GET /payments/{id}", paymentsv1.Payment_SUCCEEDED.String(), b.status},
		{"GET /payments", "1 payment", b.list},
		{"a webhook: the bank voids the charge", paymentsv1.Payment_CANCELED.String(), b.webhook},
		{"chargeonce reconcile, a process of its own", "1 charged", b.reconcile},
		{"GET /payments, what was reconciled", "2 payments", b.list},
	} {
		start := time.Now()
		got, err := step.do(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
		b.table.add(step.what, got, ms(time.Since(start)))
		r.same(step.what, step.want, got)
	}
	return nil
}

func (b *bulkheadRun) oneMore(ctx context.Context) (string, error) {
	cfg := b.overREST(b.at)
	cfg.MaxTries = 1
	got := b.pay(ctx, cfg, newIntent("one-too-many"))
	return got.String(), got.err
}

func (b *bulkheadRun) status(ctx context.Context) (string, error) {
	p, err := b.reader.Get(ctx, b.paid.GetId())
	return p.GetStatus().String(), err
}

func (b *bulkheadRun) list(ctx context.Context) (string, error) {
	page, err := b.reader.List(ctx, &paymentsv1.ListPaymentsRequest{})
	if n := len(page.GetPayments()); n != 1 {
		return fmt.Sprintf("%d payments", n), err
	}
	return "1 payment", err
}

// webhook has the bank void the charge, which the PSP tells by an event alone.
func (b *bulkheadRun) webhook(ctx context.Context) (status string, err error) {
	charges, err := b.psp.sim.ChargesOf(ctx, b.paid.GetOrderId())
	if err != nil {
		return "", err
	}
	if len(charges) != 1 {
		return "", fmt.Errorf("%d charges for %s", len(charges), b.paid.GetOrderId())
	}
	if err := b.psp.void(ctx, charges[0].ID); err != nil {
		return "", err
	}
	err = until(ctx, "the event's effect", func() (bool, error) {
		status, err = b.status(ctx)
		return status != paymentsv1.Payment_SUCCEEDED.String(), err
	})
	return status, err
}

// reconcile runs one pass, which asks the hung PSP by key and does not charge.
func (b *bulkheadRun) reconcile(ctx context.Context) (string, error) {
	out, _, err := b.rig.Command(ctx, b.psp.sim, "reconcile", "--grace", "0s", "--output", "json")
	if err != nil {
		return "", err
	}
	var report struct {
		Stuck struct{ Charged int }
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		return "", fmt.Errorf("the report: %w: %q", err, out)
	}
	return fmt.Sprintf("%d charged", report.Stuck.Charged), nil
}
