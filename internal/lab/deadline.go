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

var deadlineExperiment = Experiment{
	Name:  "deadline",
	Title: "A client that asks 300 ms of a PSP that takes 2 s, over both faces",
	Shows: `The client's deadline goes along to the server and on to the PSP, less a reserve for recording the outcome. So the
answer is there when the client still listens, long before the PSP's: the outcome is unknown, and the key is free. The client
that comes back with the same key is charged once, though the PSP was still at work on the first request.`,
	Proof: true,
	Bound: time.Minute,
	Run:   runDeadline,
}

const (
	shortDeadline = 300 * time.Millisecond
	slowPSP       = 2 * time.Second
)

func runDeadline(ctx context.Context, env Env, o Options) (r Report, err error) {
	err = env.withService(ctx, func(s *site) error {
		at, err := s.rig.StartServer(ctx, "server", s.psp.sim)
		if err != nil {
			return err
		}
		rest, err := s.deadlineOver(ctx, "REST", s.overREST(at), o.Seed)
		if err != nil {
			return err
		}
		grpc, err := s.deadlineOver(ctx, "gRPC", s.overGRPC(at), o.Seed)
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
	t := Table{Columns: []string{""}}
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

func (s *site) deadlineOver(ctx context.Context, face string, cfg client.Config, seed uint64) (d deadlineRun, err error) {
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
	if err := s.psp.fresh(ctx, gatewaysim.Faults{Seed: seed, Latency: gatewaysim.Fixed(slowPSP)}); err != nil {
		return d, err
	}
	for n := range deadlineTries {
		intent := newIntent(fmt.Sprintf("deadline-%s-%d", face, n))
		d = deadlineRun{face: face, order: intent.Request.GetOrderId()}
		asked, err := s.missDeadline(ctx, c, intent, &d)
		if asked || err != nil {
			return d, err
		}
	}
	return d, fmt.Errorf("%s: in none of %d purchases was the PSP asked within %s", face, deadlineTries, ms(shortDeadline))
}

// missDeadline makes one purchase, and comes back for it. asked is false when the PSP was not asked.
func (s *site) missDeadline(ctx context.Context, c *client.Client, intent client.Intent, d *deadlineRun) (asked bool, err error) {
	key, err := idempotency.ParseKey([]string{string(intent.Key)})
	if err != nil {
		return false, err
	}
	pspKey := idempotency.PSPKey(user, key)
	short, cancel := context.WithTimeout(ctx, shortDeadline)
	defer cancel()
	d.first = payWith(short, c, intent)
	switch {
	case d.first.err != nil:
		return false, d.first.err
	case d.first.payment != nil:
		return false, fmt.Errorf("%s: charged within %s, by a PSP that takes %s", d.face, ms(shortDeadline), ms(slowPSP))
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
