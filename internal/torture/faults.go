package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// faultKinds are the faults by name. It is filled below, since their functions look at it.
var faultKinds map[string]faultKind

func init() {
	faultKinds = map[string]faultKind{
		"server-kill":       {about: "SIGKILL and restart of a server", strike: killServer},
		"server-freeze":     {about: "SIGSTOP of a server for longer than its leases", strike: freezeServer},
		"rolling-restart":   {about: "SIGTERM and restart of every server in turn", strike: rollingRestart},
		"reconcile-kill":    {about: "SIGKILL and restart of a reconcile loop", strike: killLoop},
		"reconcile-freeze":  {about: "SIGSTOP of a reconcile loop for longer than its lease", strike: freezeLoop},
		"psp-kill":          {about: "SIGKILL and restart of the PSP", strike: killPSP},
		"psp-disk-full":     {about: "the PSP's file cannot grow", strike: fillPSP},
		"mysql-kill":        {about: "SIGKILL and restart of mysqld", needsMySQL: true, strike: killMySQL},
		"pool-dry":          {about: "tables are locked, so that every connection is in use", strike: lockTables},
		"leases-over":       {about: "every lease ends early, as if its holder had paused", strike: endLeases},
		"migrate":           {about: "migrations and an index built while serving", strike: migrate},
		"mysql-cut":         {about: "a process cannot reach MySQL", strike: onLink(toMySQL, weather{refuse: true})},
		"mysql-slow":        {about: "slow connections to MySQL", strike: onLink(toMySQL, weather{delay: 150 * time.Millisecond})},
		"mysql-late":        {about: "packets to MySQL that arrive after their sender has given up", strike: onLink(toMySQL, weather{delay: 1800 * time.Millisecond})},
		"mysql-half-open":   {about: "answers of MySQL get lost", strike: onLink(toMySQL, weather{loseDown: true})},
		"mysql-silent":      {about: "nothing gets to MySQL, and nobody is told", strike: onLink(toMySQL, weather{loseUp: true, loseDown: true})},
		"mysql-reset":       {about: "connections to MySQL are reset again and again", strike: resetting(toMySQL)},
		"psp-cut":           {about: "a process cannot reach the PSP", strike: onLink(toPSP, weather{refuse: true})},
		"psp-slow-link":     {about: "slow connections to the PSP", strike: onLink(toPSP, weather{delay: 200 * time.Millisecond})},
		"psp-late":          {about: "requests to the PSP that arrive after their sender has given up", strike: onLink(toPSP, weather{delay: 1500 * time.Millisecond})},
		"psp-half-open":     {about: "answers of the PSP get lost", strike: onLink(toPSP, weather{loseDown: true})},
		"psp-reset":         {about: "connections to the PSP are reset again and again", strike: resetting(toPSP)},
		"hooks-cut":         {about: "no webhook gets through", strike: cutHooks},
		"psp-hang":          {about: "the PSP hangs", strike: onPSP(pspFaults{Rules: []pspRule{{Fault: "hang", Rate: 0.5}}})},
		"psp-slow":          {about: "the PSP is slow", strike: onPSP(pspFaults{Latency: "uniform 100ms 900ms"})},
		"psp-errors":        {about: "the PSP, or a proxy before it, answers with errors", strike: onPSP(pspErrors())},
		"psp-lose-answers":  {about: "the PSP charges and the answer is lost, in every way", strike: onPSP(pspLosses())},
		"webhooks-early":    {about: "events arrive before the charge is answered", strike: onPSP(webhooks("early", true))},
		"webhooks-late":     {about: "events arrive late and out of order", strike: onPSP(webhooks("delay", "500ms", "shuffle", "1500ms"))},
		"webhooks-repeated": {about: "events arrive four times at once", strike: onPSP(webhooks("repeat", 3))},
		"webhooks-unsigned": {about: "events are wrongly signed", strike: onPSP(webhooks("bad_signature_rate", 0.7))},
		"webhooks-lost":     {about: "events are never sent", strike: onPSP(webhooks("drop_rate", 0.7))},
	}
}

// toMySQL and toPSP pick a link of a process.
func toMySQL(m *member) (*link, string) { return m.toDB, m.name + " to MySQL" }
func toPSP(m *member) (*link, string)   { return m.toPSP, m.name + " to PSP" }

type pickLink func(*member) (*link, string)

// onLink makes bad weather on the link of one process.
func onLink(pick pickLink, w weather) func(context.Context, *nemesis, int, *rand.Rand) (string, error) {
	return func(ctx context.Context, n *nemesis, _ int, dice *rand.Rand) (string, error) {
		l, what := pick(n.site.members[dice.IntN(len(n.site.members))])
		l.set(w)
		lasting(ctx, dice, time.Second, 3*time.Second)
		l.set(weather{})
		return what, nil
	}
}

func resetting(pick pickLink) func(context.Context, *nemesis, int, *rand.Rand) (string, error) {
	return func(ctx context.Context, n *nemesis, _ int, dice *rand.Rand) (string, error) {
		l, what := pick(n.site.members[dice.IntN(len(n.site.members))])
		for range 5 + dice.IntN(10) {
			l.reset()
			lasting(ctx, dice, 50*time.Millisecond, 300*time.Millisecond)
		}
		return what, nil
	}
}

func cutHooks(ctx context.Context, n *nemesis, _ int, dice *rand.Rand) (string, error) {
	n.site.hooks.set(weather{refuse: true})
	lasting(ctx, dice, time.Second, 3*time.Second)
	n.site.hooks.set(weather{})
	return "PSP to servers", nil
}

// onPSP sets faults of the PSP's own.
func onPSP(f pspFaults) func(context.Context, *nemesis, int, *rand.Rand) (string, error) {
	return func(ctx context.Context, n *nemesis, id int, dice *rand.Rand) (string, error) {
		f := f
		f.Seed = dice.Uint64() >> 1
		err := n.site.psp.strike(ctx, id, f)
		lasting(ctx, dice, time.Second, 4*time.Second)
		heal, cancel := healing(ctx)
		defer cancel()
		return "psp", errors.Join(err, n.site.psp.heal(heal, id))
	}
}

func pspErrors() pspFaults {
	var f pspFaults
	for _, status := range []int{400, 401, 403, 404, 408, 413, 429, 500, 502, 503, 504} {
		f.Rules = append(f.Rules, pspRule{Fault: "error", Status: status, Rate: 0.04})
	}
	return f
}

func pspLosses() pspFaults {
	var f pspFaults
	for _, how := range []string{"drop_connection", "hang", "error", "cut_body", "proxy_page", "garbage"} {
		f.Rules = append(f.Rules, pspRule{Fault: "lose_answer", How: how, Rate: 0.1, Match: map[string]any{"method": "POST", "path": "/charges"}})
	}
	return f
}

// webhooks makes a fault of names and values in turn.
func webhooks(pairs ...any) pspFaults {
	f := pspFaults{Webhooks: map[string]any{}}
	for i := 0; i+1 < len(pairs); i += 2 {
		f.Webhooks[pairs[i].(string)] = pairs[i+1]
	}
	return f
}

func killServer(ctx context.Context, n *nemesis, _ int, dice *rand.Rand) (string, error) {
	return killAndBring(ctx, &n.site.servers[dice.IntN(len(n.site.servers))].process, dice)
}

func killLoop(ctx context.Context, n *nemesis, _ int, dice *rand.Rand) (string, error) {
	return killAndBring(ctx, n.site.loops[dice.IntN(len(n.site.loops))], dice)
}

func killPSP(ctx context.Context, n *nemesis, _ int, dice *rand.Rand) (string, error) {
	return killAndBring(ctx, &n.site.psp.process, dice)
}

func killAndBring(ctx context.Context, p *process, dice *rand.Rand) (string, error) {
	p.busy.Lock()
	defer p.busy.Unlock()
	err := p.kill()
	lasting(ctx, dice, 0, time.Second)
	heal, cancel := healing(ctx)
	defer cancel()
	return p.name, errors.Join(err, p.bring(heal))
}

func freezeServer(ctx context.Context, n *nemesis, _ int, dice *rand.Rand) (string, error) {
	lease := n.site.cfg.pace.lease()
	return freeze(ctx, &n.site.servers[dice.IntN(len(n.site.servers))].process, dice, lease)
}

func freezeLoop(ctx context.Context, n *nemesis, _ int, dice *rand.Rand) (string, error) {
	return freeze(ctx, n.site.loops[dice.IntN(len(n.site.loops))], dice, 2*time.Second)
}

// freeze stops a process for longer than its leases last.
func freeze(ctx context.Context, p *process, dice *rand.Rand, lease time.Duration) (string, error) {
	p.busy.Lock()
	defer p.busy.Unlock()
	if !p.alive() {
		return p.name, errors.New("not running")
	}
	err := p.running().Freeze()
	lasting(ctx, dice, lease+200*time.Millisecond, lease+time.Second)
	return p.name, errors.Join(err, p.running().Thaw())
}

// drainBound is how long a server may take to end: its longest deadline, two writes, and what the machine adds.
const drainBound = 20 * time.Second

// rollingRestart ends and starts every server in order, as a deployment does.
func rollingRestart(ctx context.Context, n *nemesis, _ int, dice *rand.Rand) (string, error) {
	heal, cancel := healing(ctx)
	defer cancel()
	var errs []error
	for _, srv := range n.site.servers {
		errs = append(errs, func() error {
			srv.busy.Lock()
			defer srv.busy.Unlock()
			if srv.alive() {
				if err := srv.stop(heal, drainBound); err != nil {
					n.accuse(violation{text: "rolling restart: " + err.Error()})
				}
			}
			return srv.bring(heal)
		}())
		lasting(ctx, dice, 0, 300*time.Millisecond)
	}
	return "all servers", errors.Join(errs...)
}

// fillPSP starts the PSP with a file that is full, and then with one that is not.
func fillPSP(ctx context.Context, n *nemesis, _ int, dice *rand.Rand) (string, error) {
	p := n.site.psp
	p.busy.Lock()
	defer p.busy.Unlock()
	heal, cancel := healing(ctx)
	defer cancel()
	err := errors.Join(p.kill(), p.fill(true), p.bring(heal))
	lasting(ctx, dice, time.Second, 3*time.Second)
	return p.name, errors.Join(err, p.kill(), p.fill(false), p.bring(heal))
}

func killMySQL(ctx context.Context, n *nemesis, _ int, dice *rand.Rand) (string, error) {
	heal, cancel := healing(ctx)
	defer cancel()
	err := n.site.mysql.kill(heal)
	lasting(ctx, dice, 0, time.Second)
	return "mysqld", errors.Join(err, n.site.mysql.up(heal))
}

// lockTables holds the tables for longer than a request waits.
func lockTables(ctx context.Context, n *nemesis, _ int, dice *rand.Rand) (what string, err error) {
	what = "every pool"
	heal, cancel := healing(ctx)
	defer cancel()
	conn, err := n.site.db.Conn(heal)
	if err != nil {
		return what, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.ExecContext(heal, `LOCK TABLES idempotency_keys WRITE, payments WRITE`); err != nil {
		return what, err
	}
	lasting(ctx, dice, 500*time.Millisecond, 2*time.Second)
	_, err = conn.ExecContext(heal, `UNLOCK TABLES`)
	return what, err
}

// endLeases makes leases end while their holders still work: what a long pause of a holder, or a jump of the database's clock,
// comes to. So many more stale holders write than a freeze makes.
func endLeases(ctx context.Context, n *nemesis, _ int, dice *rand.Rand) (string, error) {
	var ended int64
	for range 10 + dice.IntN(20) {
		res, err := n.site.db.ExecContext(ctx, `UPDATE idempotency_keys SET locked_until = NOW(3) WHERE status = 'processing' AND locked_until > NOW(3)`)
		if err == nil {
			var some int64
			some, err = res.RowsAffected()
			ended += some
		}
		if err != nil && ctx.Err() == nil {
			lasting(ctx, dice, 100*time.Millisecond, 200*time.Millisecond) // MySQL may be away
		}
		lasting(ctx, dice, 20*time.Millisecond, 100*time.Millisecond)
		if ctx.Err() != nil {
			break
		}
	}
	return fmt.Sprintf("%d leases", ended), nil
}

// migrate runs the migrations, two at once, and builds an index and drops it, as a new one would.
func migrate(ctx context.Context, n *nemesis, _ int, dice *rand.Rand) (string, error) {
	heal, cancel := healing(ctx)
	defer cancel()
	var errs [3]error
	var all sync.WaitGroup
	for i := range 2 {
		all.Go(func() { errs[i] = n.site.rigs[0].Migrate(heal) })
	}
	all.Go(func() {
		for _, statement := range []string{
			`ALTER TABLE payments ADD KEY torture (user_id, amount)`, `ALTER TABLE payments DROP KEY torture`,
		} {
			if _, err := n.site.db.ExecContext(heal, statement); err != nil {
				errs[2] = errors.Join(errs[2], err)
			}
			lasting(ctx, dice, 0, 300*time.Millisecond)
		}
	})
	all.Wait()
	return "the schema", errors.Join(errs[:]...)
}
