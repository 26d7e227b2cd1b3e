package lab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"chargeonce/api/payments/v1/client"
	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/internal/idempotency"
)

var deadlineExperiment = with(Experiment{
	Name:  "deadline",
	Title: "Three services in a chain, with and without the deadline passed on; and a client that asks 300 ms of a PSP that takes 2 s",
	Shows: `Without a deadline each service works by its own time-out, and so the chain works on for a client that has long gone.
Cutting the work when the caller hangs up helps as far as the hanging up travels; a deadline that is passed on says in advance how
much time is left, and a service that sees too little of it does not begin. Ours passes it on: the client's deadline goes to the
server and on to the PSP, less a reserve for recording the outcome. So the answer is there when the client still listens, long
before the PSP's: the outcome is unknown, and the key is free. The client that comes back with the same key is charged once,
though the PSP was still at work on the first request.`,
	Proof: true,
	Bound: time.Minute,
	Code:  []string{"internal/server/deadline.go", "internal/psp/exchange.go", "internal/lab/deadlinechain.go"},
}, deadlineNumbers{Deadline: 300 * time.Millisecond, PSP: 2 * time.Second, Requests: 20, Services: 3, Work: 100 * time.Millisecond,
	Patience: 150 * time.Millisecond},
	deadlineNumbers{Deadline: 300 * time.Millisecond, PSP: time.Second, Requests: 5, Services: 3, Work: 150 * time.Millisecond,
		Patience: 250 * time.Millisecond}, runDeadline)

// deadlineNumbers are the client and the PSP, and the chain.
type deadlineNumbers struct {
	Deadline time.Duration `help:"The client's deadline." min:"250ms" max:"30s"`
	PSP      time.Duration `help:"How long the PSP takes."`
	Requests int           `help:"Requests to the chain, all at once." max:"1000"`
	Services int           `help:"Services in the chain." min:"2" max:"10"`
	Work     time.Duration `help:"What each of them works before it asks the next."`
	Patience time.Duration `help:"How long the client of the chain waits."`
}

func runDeadline(ctx context.Context, env Env, o Options, n deadlineNumbers) (r Report, err error) {
	if err := n.chains(ctx, &r); err != nil {
		return r, err
	}
	err = env.withService(ctx, func(s *site) error {
		at, err := s.rig.StartServer(ctx, "server", s.psp.sim)
		if err != nil {
			return err
		}
		rest, err := n.over(ctx, s, "REST", s.overREST(at), o.Seed)
		if err != nil {
			return err
		}
		grpc, err := n.over(ctx, s, "gRPC", s.overGRPC(at), o.Seed)
		if err != nil {
			return err
		}
		r.Tables = append(r.Tables, deadlineTable(rest, grpc))
		for _, d := range []deadlineRun{rest, grpc} {
			r.before(d.face+": the answer, and the PSP's own", d.answered(), d.pspEnd)
			r.before(d.face+": the key is free, and the PSP's own answer", d.free, d.pspEnd)
			r.same(d.face+": the retry", "charged", d.retry.String())
			if err := s.onceEach(ctx, &r, d.face, d.order); err != nil {
				return err
			}
		}
		return nil
	})
	return r, err
}

// deadlineRun is what came of one face.
type deadlineRun struct {
	face, order  string
	first, retry told
	pspTold      string // the Grpc-Timeout that the PSP got
	free, pspEnd time.Time
}

func (d deadlineRun) answered() time.Time { return d.first.began.Add(d.first.took) }

func deadlineTable(runs ...deadlineRun) Table {
	t := Table{Title: "The service, over both faces", Columns: []string{""}}
	row := func(what string, cell func(deadlineRun) string) {
		cells := []string{what}
		for _, d := range runs {
			cells = append(cells, cell(d))
		}
		t.add(cells...)
	}
	for _, d := range runs {
		t.Columns = append(t.Columns, d.face)
	}
	row("the client is told", func(d deadlineRun) string { return d.first.String() })
	row("after", func(d deadlineRun) string { return ms(d.first.took) })
	row("the PSP is told, as Grpc-Timeout", func(d deadlineRun) string { return d.pspTold })
	row("the key is free after, at most", func(d deadlineRun) string { return ms(d.free.Sub(d.first.began)) })
	row("the PSP answers after", func(d deadlineRun) string { return ms(d.pspEnd.Sub(d.first.began)) })
	row("margin: the PSP's answer after the client's", func(d deadlineRun) string { return ms(d.pspEnd.Sub(d.answered())) })
	row("the retry", func(d deadlineRun) string { return d.retry.String() + ", " + ms(d.retry.took) })
	return t
}

// deadlineTries bounds how often a purchase is made anew when so little of its deadline was left that the PSP was never asked.
const deadlineTries = 10

func (n deadlineNumbers) over(ctx context.Context, s *site, face string, cfg client.Config, seed uint64) (d deadlineRun, err error) {
	c, err := client.New(cfg)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	// Making the connection, and the server's first look at the API key, are not what is measured.
	if err := s.psp.fresh(ctx, gatewaysim.Faults{}); err != nil {
		return d, err
	}
	if warm := payWith(ctx, c, newIntent("warm-up-"+face)); warm.err != nil || warm.payment == nil {
		return d, fmt.Errorf("warm-up: %s: %w", warm, warm.err)
	}
	if err := s.psp.fresh(ctx, gatewaysim.Faults{Seed: seed, Latency: gatewaysim.Fixed(n.PSP)}); err != nil {
		return d, err
	}
	for try := range deadlineTries {
		intent := newIntent(fmt.Sprintf("deadline-%s-%d", face, try))
		d = deadlineRun{face: face, order: intent.Request.GetOrderId()}
		asked, err := n.miss(ctx, s, c, intent, &d)
		if asked || err != nil {
			return d, err
		}
	}
	return d, fmt.Errorf("%s: in none of %d purchases was the PSP asked within %s", face, deadlineTries, ms(n.Deadline))
}

// miss makes one purchase, and comes back for it. asked is false when the PSP was not asked.
func (n deadlineNumbers) miss(ctx context.Context, s *site, c *client.Client, intent client.Intent, d *deadlineRun) (asked bool, err error) {
	key, err := idempotency.ParseKey([]string{string(intent.Key)})
	if err != nil {
		return false, err
	}
	pspKey := idempotency.PSPKey(user, key)
	short, cancel := context.WithTimeout(ctx, n.Deadline)
	defer cancel()
	d.first = payWith(short, c, intent)
	switch {
	case d.first.err != nil:
		return false, d.first.err
	case d.first.payment != nil:
		return false, fmt.Errorf("%s: charged within %s, by a PSP that takes %s", d.face, ms(n.Deadline), ms(n.PSP))
	}
	if _, asked, err = s.psp.firstPost(ctx, pspKey); !asked || err != nil {
		return false, err
	}
	err = until(ctx, "the release of the key", func() (bool, error) { return s.released(ctx, intent.Key) })
	d.free = time.Now()
	if err != nil {
		return false, err
	}
	if d.retry = payWith(ctx, c, intent); d.retry.err != nil {
		return false, d.retry.err
	}
	if _, err := s.psp.settled(ctx); err != nil {
		return false, err
	}
	post, asked, err := s.psp.firstPost(ctx, pspKey)
	d.pspTold, d.pspEnd = post.GrpcTimeout, post.Received.Add(time.Duration(post.Duration))
	return asked, err
}
