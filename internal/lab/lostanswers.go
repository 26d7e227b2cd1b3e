package lab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"chargeonce/api/payments/v1/client"
	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/internal/rig"
)

var lostAnswersExperiment = Experiment{
	Name:  "lost-answers",
	Title: "A PSP that charges and loses 30 % of its answers; two servers, and clients that come back",
	Shows: `A charge whose answer is lost is the worst case: it looks like a failure, and is none. Every retry, the service's own
and the client's, on the same server or the other one, goes to the PSP under the same key, and so finds the charge that is
there. However many requests it takes: one charge and one payment row for each purchase.`,
	Proof: true,
	Ours:  true,
	Bound: 4 * time.Minute,
	Run:   runLostAnswers,
}

type lostPlan struct{ purchases, atOnce int }

// lostShare is the share of the answers that is lost.
const lostShare = 0.3

// lostTries is how often a client comes back at most. A budget that is spent and a breaker that is open send it away many times.
const lostTries = 200

// lostCount is what came of all purchases.
type lostCount struct {
	mu                  sync.Mutex
	charged, tries, max int64
	took                []time.Duration
	began               time.Time
}

func runLostAnswers(ctx context.Context, env Env, o Options) (r Report, err error) {
	plan := pick(o, lostPlan{purchases: 2000, atOnce: 32}, lostPlan{purchases: 40, atOnce: 8})
	err = env.withService(ctx, func(s *site) (err error) {
		c, err := s.balanced(ctx, "one", "two")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.Close()) }()
		share := lostShare
		if err := s.psp.fresh(ctx, gatewaysim.Faults{Seed: o.Seed, Rules: []gatewaysim.Rule{{
			Fault: gatewaysim.LoseAnswer, Match: onCharges(), Rate: &share,
		}}}); err != nil {
			return err
		}
		got := lostCount{began: time.Now()}
		if err := crowd(ctx, plan.purchases, plan.atOnce, func(ctx context.Context, i int) error {
			return got.note(payWith(ctx, c, newIntent(fmt.Sprintf("lost-%d", i))))
		}); err != nil {
			return err
		}
		return s.reportLost(ctx, plan, &got, &r)
	})
	return r, err
}

func (l *lostCount) note(t told) error {
	if t.err != nil {
		return t.err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.payment != nil {
		l.charged++
	}
	l.tries += int64(t.tries)
	l.max = max(l.max, int64(t.tries))
	l.took = append(l.took, t.took)
	return nil
}

// reportLost holds the PSP's ledger against the payments, charge by charge.
func (s *site) reportLost(ctx context.Context, plan lostPlan, got *lostCount, r *Report) error {
	took := time.Since(got.began)
	stats, err := s.psp.settled(ctx)
	if err != nil {
		return err
	}
	ledger, err := s.psp.sim.Charges(ctx)
	if err != nil {
		return err
	}
	orders := map[string]bool{}
	var unknown int64
	for _, ch := range ledger {
		orders[ch.Metadata["order_id"]] = true
		rows, err := s.count(ctx, `SELECT COUNT(*) FROM payments WHERE user_id = ? AND charge_id = ? AND order_id = ?
			AND amount = ? AND currency = ? AND status = 'succeeded'`, user, ch.ID, ch.Metadata["order_id"], ch.Amount, ch.Currency)
		if err != nil {
			return err
		}
		if rows != 1 {
			unknown++
		}
	}
	rows, err := s.count(ctx, "SELECT COUNT(*) FROM payments")
	if err != nil {
		return err
	}
	n := int64(plan.purchases)
	t := Table{Columns: []string{"", ""}}
	t.add("purchases", fmt.Sprintf("%d, %d at once", n, plan.atOnce))
	t.add("requests of clients", fmt.Sprintf("%d, at most %d for one purchase", got.tries, got.max))
	t.add("charges asked of the PSP", fmt.Sprint(charged(stats)))
	t.add("answers lost", fmt.Sprint(stats.AnswersLost))
	t.add("charges", fmt.Sprint(len(ledger)))
	t.add("payment rows", fmt.Sprint(rows))
	t.add("a purchase took", fmt.Sprintf("p50 %s, p99 %s", ms(quantile(got.took, .5)), ms(quantile(got.took, .99))))
	t.add("all took", seconds(took))
	r.Tables = append(r.Tables, t)
	r.equal("purchases whose client was told that they are charged", n, got.charged)
	r.equal("charges at the PSP", n, int64(len(ledger)))
	r.equal("orders among them", n, int64(len(orders)))
	r.equal("payment rows", n, rows)
	r.equal("charges without a payment row of the same order and amount", 0, unknown)
	r.Checks = append(r.Checks, Check{What: "answers lost", Want: "some", Got: fmt.Sprint(stats.AnswersLost), OK: stats.AnswersLost > 0})
	return nil
}

// balanced starts servers and makes a client whose tries go to them in turn, as behind a load balancer.
func (s *site) balanced(ctx context.Context, names ...string) (*client.Client, error) {
	b := &balancer{pool: &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute}}
	var first *rig.Server
	for _, name := range names {
		at, err := s.rig.StartServer(ctx, name, s.psp.sim)
		if err != nil {
			return nil, err
		}
		if first == nil {
			first = at
		}
		b.hosts = append(b.hosts, at.REST)
	}
	cfg := s.overREST(first)
	cfg.HTTP, cfg.MaxTries = b, lostTries
	return client.New(cfg)
}

// balancer sends each request to the next server, once.
type balancer struct {
	pool  *http.Transport
	hosts []string
	next  atomic.Uint64
}

// RoundTrip implements http.RoundTripper.
func (b *balancer) RoundTrip(req *http.Request) (*http.Response, error) {
	out := req.Clone(req.Context())
	out.URL.Host = b.hosts[b.next.Add(1)%uint64(len(b.hosts))]
	out.Host = ""
	return b.pool.RoundTrip(out)
}
