package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

const (
	// gapPasses is how many processes reconcile at once, roundPause how long they rest after each round.
	gapPasses  = 2
	roundPause = 300 * time.Millisecond
)

// passReport is what of a pass's report the experiment looks at.
type passReport struct {
	PSPDown bool `json:"psp_down"`
	Stuck   struct {
		Seen, Charged, Refused, Abandoned int
	} `json:"stuck"`
	Pending   struct{ Asked, Changed int }   `json:"pending"`
	Statement struct{ Written, Raised int }  `json:"statement"`
	Events    struct{ Applied, Waiting int } `json:"events"`
	Found     int                            `json:"found"`
	Findings  []struct {
		Kind   string `json:"kind"`
		Detail string `json:"detail"`
	} `json:"findings"`

	code int // the process's exit status
}

// quiet reports whether the pass found nothing to do.
func (p passReport) quiet() bool {
	return p.Stuck.Seen == 0 && p.Pending.Asked == 0 && p.Statement.Written == 0 && p.Statement.Raised == 0 && p.Events.Waiting == 0
}

// pass runs `chargeonce reconcile` in so many processes at once.
func (g *gaps) pass(ctx context.Context) ([]passReport, error) {
	out := make([]passReport, gapPasses)
	err := crowd(ctx, gapPasses, gapPasses, func(ctx context.Context, i int) error {
		stdout, code, err := g.rig.Command(ctx, g.psp.sim, "reconcile", "--output", "json", "--grace", "1s", "--abandon-after", "2s",
			"--pending-after", "1s", "--quiet", "1s", "--rate", "1000")
		if err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(stdout), &out[i]); err != nil {
			return fmt.Errorf("the report of a pass (exit status %d): %w", code, err)
		}
		out[i].code = code
		return nil
	})
	return out, err
}

// gapTotals adds up what all passes did.
type gapTotals struct {
	rounds, charged, refused, abandoned, pending, written, raised int
	alarms                                                        int64 // passes that did not end with exit status 0
	worst                                                         string
}

func (t *gapTotals) add(p passReport) {
	t.charged += p.Stuck.Charged
	t.refused += p.Stuck.Refused
	t.abandoned += p.Stuck.Abandoned
	t.pending += p.Pending.Changed
	t.written += p.Statement.Written
	t.raised += p.Statement.Raised
	if p.code != 0 {
		t.alarms++
		t.worst = fmt.Sprintf("exit status %d, PSP down: %v, findings: %v", p.code, p.PSPDown, p.Findings)
	}
}

// reconcileUntilQuiet runs rounds of passes, from the moment that the last client has left and while webhooks are still on their
// way, until all of them are there, no key is processing and a round had nothing to do. ctx bounds it.
func (g *gaps) reconcileUntilQuiet(ctx context.Context, r *Report) error {
	began := time.Now()
	var sum gapTotals
	err := until(ctx, "reconciliation to be quiet", func() (bool, error) {
		waiting, err := g.webhooksWaiting(ctx)
		if err != nil {
			return false, err
		}
		passes, err := g.pass(ctx)
		if err != nil {
			return false, err
		}
		sum.rounds++
		quiet := waiting == 0
		for _, p := range passes {
			sum.add(p)
			quiet = quiet && p.quiet()
		}
		open, err := g.openKeys(ctx)
		if err != nil || quiet && len(open) == 0 {
			return true, err
		}
		return false, waitFor(ctx, roundPause)
	})
	if err != nil {
		return err
	}
	t := Table{Title: "Reconciliation, two processes at once", Columns: []string{"", ""}}
	t.add("until quiet", fmt.Sprintf("%s, %d rounds", seconds(time.Since(began)), sum.rounds))
	t.add("stuck keys ended as charged, refused, abandoned", fmt.Sprintf("%d, %d, %d", sum.charged, sum.refused, sum.abandoned))
	t.add("pending charges whose end was asked for", fmt.Sprint(sum.pending))
	t.add("payments written, raised by the statement", fmt.Sprintf("%d, %d", sum.written, sum.raised))
	r.Tables = append(r.Tables, t)
	if sum.worst != "" {
		r.Notes = append(r.Notes, sum.worst)
	}
	r.atLeast("stuck keys that reconciliation ended", 1, int64(sum.charged+sum.refused+sum.abandoned))
	r.equal("passes with another exit status than 0", 0, sum.alarms)
	return nil
}

// webhooksWaiting counts the events that the PSP has still to deliver, or gave up.
func (g *gaps) webhooksWaiting(ctx context.Context) (n int, err error) {
	events, err := g.events(ctx)
	for _, e := range events {
		if e.State != eventDelivered && e.State != eventDropped {
			n++
		}
	}
	return n, err
}

// deleteByHand deletes a payment row, and then another one with its key, and sees what reconciliation makes of each.
func (g *gaps) deleteByHand(ctx context.Context, r *Report) error {
	var charge, key string
	const pick = `SELECT p.charge_id, k.idem_key FROM payments p JOIN idempotency_keys k ON k.user_id = p.user_id AND k.payment_id = p.id
		WHERE p.user_id = ? AND p.status = 'succeeded' ORDER BY p.id LIMIT 1`
	if err := g.db.QueryRowContext(ctx, pick, user).Scan(&charge, &key); err != nil {
		return fmt.Errorf("a payment to delete: %w", err)
	}
	before, err := g.payments(ctx)
	if err != nil {
		return err
	}
	for _, step := range []struct {
		what   string
		delete func() error
		row    entry
		code   int
		kind   string
	}{
		{"a deleted row", func() error { return g.delete(ctx, charge, "") }, before[charge], 0, ""},
		{"a deleted row whose key is gone too", func() error { return g.delete(ctx, charge, key) }, entry{}, 1, "orphan"},
	} {
		if err := step.delete(); err != nil {
			return err
		}
		passes, err := g.pass(ctx)
		if err != nil {
			return err
		}
		after, err := g.payments(ctx)
		if err != nil {
			return err
		}
		r.same(step.what+", after a round: the row", step.row.String(), after[charge].String())
		for _, p := range passes {
			r.equal(step.what+": exit status", int64(step.code), int64(p.code))
			kinds := ""
			for _, f := range p.Findings {
				kinds += f.Kind
			}
			r.same(step.what+": findings", step.kind, kinds)
		}
	}
	return nil
}

// delete deletes the row of a charge and, if one is given, a key.
func (g *gaps) delete(ctx context.Context, charge, key string) error {
	if _, err := g.db.ExecContext(ctx, "DELETE FROM payments WHERE user_id = ? AND charge_id = ?", user, charge); err != nil {
		return fmt.Errorf("delete the row: %w", err)
	}
	if key == "" {
		return nil
	}
	if _, err := g.db.ExecContext(ctx, "DELETE FROM idempotency_keys WHERE user_id = ? AND idem_key = ?", user, []byte(key)); err != nil {
		return fmt.Errorf("delete the key: %w", err)
	}
	return nil
}
