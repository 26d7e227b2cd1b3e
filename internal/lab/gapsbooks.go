package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"

	"chargeonce/api/payments/v1/client"
	"chargeonce/internal/rig"
)

// reportShopping says what the killing and losing has left behind.
func (g *gaps) reportShopping(ctx context.Context, r *Report) error {
	stats, err := g.psp.settled(ctx)
	if err != nil {
		return err
	}
	// The server that was restarted last may have been killed since the last count.
	if err := g.fleet.recount(ctx); err != nil {
		return err
	}
	open, err := g.openKeys(ctx)
	if err != nil {
		return err
	}
	t := Table{Title: "Before reconciliation", Columns: []string{"", ""}}
	t.add("purchases, one try each", fmt.Sprintf("%d, %d at once, in %s", g.fleet.begun, g.plan.atOnce, seconds(g.took)))
	for _, answer := range slices.Sorted(maps.Keys(g.answers)) {
		t.add("  told: "+answer, fmt.Sprint(g.answers[answer]))
	}
	t.add("servers killed", fmt.Sprint(g.fleet.kills))
	t.add("requests cut off by it, before their finish", fmt.Sprintf("%d, %d", len(g.fleet.cut), g.fleet.killed))
	t.add("answers of the PSP lost", fmt.Sprintf("%d of %d", stats.AnswersLost, charged(stats)))
	t.add("events, of them never delivered", fmt.Sprintf("%d, %d", stats.Webhooks.Events, stats.Webhooks.Dropped))
	t.add("keys left processing", fmt.Sprint(len(open)))
	r.Tables = append(r.Tables, t)
	r.atLeast("requests killed before their finish", int64(killShare*float64(g.plan.purchases)), int64(g.fleet.killed))
	r.atLeast("answers lost", 1, stats.AnswersLost)
	r.atLeast("events never delivered", 1, stats.Webhooks.Dropped)
	return nil
}

// openKeys returns the keys that are processing.
func (s *site) openKeys(ctx context.Context) (keys map[client.Key]bool, err error) {
	rows, err := s.db.QueryContext(ctx, "SELECT idem_key FROM idempotency_keys WHERE status = 'processing'")
	if err != nil {
		return nil, fmt.Errorf("open keys: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	keys = map[client.Key]bool{}
	for rows.Next() {
		var key client.Key
		if err := rows.Scan(&key); err != nil {
			return nil, fmt.Errorf("open keys: %w", err)
		}
		keys[key] = true
	}
	return keys, rows.Err()
}

// entry is what our table and the PSP's ledger both say of a charge.
type entry struct {
	order, currency, status string
	amount                  int64
}

// checkBooks holds our tables against the PSP's own, once nothing is under way any more.
func (g *gaps) checkBooks(ctx context.Context, r *Report) error {
	ledger, err := g.psp.sim.Charges(ctx)
	if err != nil {
		return err
	}
	ours, err := g.payments(ctx)
	if err != nil {
		return err
	}
	var wrong, theirSum, ourSum int64
	orders := map[string]bool{}
	for _, c := range ledger {
		orders[c.Metadata["order_id"]] = true
		theirSum += c.Amount
		if ours[c.ID] != entryOf(c) {
			wrong++
		}
	}
	for _, e := range ours {
		ourSum += e.amount
	}
	n := int64(len(ledger))
	r.atLeast("charges at the PSP", 1, n)
	r.equal("orders among the charges", n, int64(len(orders)))
	r.equal("payment rows", n, int64(len(ours)))
	r.equal("charges whose row differs in order, amount, currency or status, or is missing", 0, wrong)
	r.equal("cents in payment rows", theirSum, ourSum)
	for _, c := range []struct{ what, query string }{
		{"keys left processing", `SELECT COUNT(*) FROM idempotency_keys WHERE status = 'processing'`},
		{"keys parked", `SELECT COUNT(*) FROM idempotency_keys WHERE status = 'parked'`},
		{"keys that were answered as charged and have no payment", `SELECT COUNT(*) FROM idempotency_keys k
			WHERE k.response_code < 300 AND NOT EXISTS (SELECT 1 FROM payments p WHERE p.user_id = k.user_id AND p.id = k.payment_id)`},
		{"keys that were answered as refused and have a charge that stands", `SELECT COUNT(*) FROM idempotency_keys k
			JOIN payments p ON p.user_id = k.user_id AND p.id = k.payment_id WHERE k.response_code >= 400 AND p.status <> 'failed'`},
	} {
		got, err := g.count(ctx, c.query)
		if err != nil {
			return err
		}
		r.equal(c.what, 0, got)
	}
	if err := g.checkPaid(ctx, r); err != nil {
		return err
	}
	return g.checkEvents(ctx, r)
}

// String words it; no entry is "none".
func (e entry) String() string {
	if e == (entry{}) {
		return "none"
	}
	return fmt.Sprintf("%s, %d %s, %s", e.order, e.amount, e.currency, e.status)
}

func entryOf(c rig.Charge) entry {
	return entry{order: c.Metadata["order_id"], currency: c.Currency, status: c.Status, amount: c.Amount}
}

// payments reads our table by charge.
func (g *gaps) payments(ctx context.Context) (out map[string]entry, err error) {
	rows, err := g.db.QueryContext(ctx, "SELECT charge_id, order_id, currency, status, amount FROM payments WHERE user_id = ?", user)
	if err != nil {
		return nil, fmt.Errorf("payments: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	out = map[string]entry{}
	for rows.Next() {
		var id string
		var e entry
		if err := rows.Scan(&id, &e.order, &e.currency, &e.status, &e.amount); err != nil {
			return nil, fmt.Errorf("payments: %w", err)
		}
		out[id] = e
	}
	return out, rows.Err()
}

// checkPaid looks for every payment that a client was told of.
func (g *gaps) checkPaid(ctx context.Context, r *Report) error {
	missing := int64(0)
	for _, id := range g.paid {
		n, err := g.count(ctx, "SELECT COUNT(*) FROM payments WHERE user_id = ? AND id = ?", user, id)
		if err != nil {
			return err
		}
		if n != 1 {
			missing++
		}
	}
	r.equal("payments that a client was told of and that are not there", 0, missing)
	return nil
}

// event is an event as the PSP keeps it.
type event struct {
	ID    string `json:"id"`
	State string `json:"state"`
}

const (
	eventDropped   = "dropped"
	eventDelivered = "delivered"
)

// checkEvents demands of every event that was not dropped that it is in the inbox once, as applied, and of the others that they
// are not in it.
func (g *gaps) checkEvents(ctx context.Context, r *Report) error {
	events, err := g.events(ctx)
	if err != nil {
		return err
	}
	var delivered, applied, other int64
	for _, e := range events {
		rows, err := g.count(ctx, "SELECT COUNT(*) FROM webhook_events WHERE event_id = ? AND state = 'applied'", []byte(e.ID))
		if err != nil {
			return err
		}
		switch e.State {
		case eventDelivered:
			delivered++
			applied += rows
		default:
			other += rows
		}
	}
	stats, err := g.psp.stats(ctx)
	if err != nil {
		return err
	}
	inbox, err := g.count(ctx, "SELECT COUNT(*) FROM webhook_events")
	if err != nil {
		return err
	}
	r.equal("events applied, of those that were delivered", delivered, applied)
	r.equal("events in the inbox besides", 0, inbox-applied+other)
	r.atLeast("deliveries that were answered 200, repeats among them", delivered+1, stats.Webhooks.Delivered)
	return nil
}

// events reads the PSP's events. The page has one JSON object a line.
func (g *gaps) events(ctx context.Context) (out []event, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.psp.sim.URL+"/admin/events", nil)
	if err != nil {
		return nil, fmt.Errorf("PSP: events: %w", err)
	}
	resp, err := g.psp.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("PSP: events: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAdminPage))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, fmt.Errorf("PSP: events: %w", err)
	}
	for lines := json.NewDecoder(bytes.NewReader(text)); ; {
		var e event
		err := lines.Decode(&e)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("PSP: events: %w", err)
		}
		out = append(out, e)
	}
}

// atLeast demands that something happened at all, or often enough.
func (r *Report) atLeast(what string, least, got int64) {
	r.Checks = append(r.Checks, Check{What: what, Want: fmt.Sprintf("≥ %d", least), Got: fmt.Sprint(got), OK: got >= least})
}
