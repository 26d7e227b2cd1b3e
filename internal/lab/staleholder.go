package lab

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	paymentsv1 "chargeonce/api/payments/v1"
	"chargeonce/internal/idempotency"
	"chargeonce/internal/mysql"
	"chargeonce/internal/payment"
	"chargeonce/internal/psp"
)

var staleHolderExperiment = with(Experiment{
	Name:  "stale-holder",
	Title: "A holder that was taken for dead wakes up: no guard, a unique charge, and the lease; and two kinds of PSP error",
	Shows: `A claims a key, charges, and freezes before it has written anything. Its lease ends, B takes the key over and charges under
the same PSP key, which gives it the charge that is there. Then both want to write it. Without a guard both do: two rows for one
charge. A unique charge_id stops the second row but not the wrong one: if A wakes while B is still at the PSP, A writes, and B, who
holds the key, is rolled back. With the lease every write carries the token of its claim, and whoever was taken over matches no row,
in either order. The PSP charges once in all six, since the key is passed on to it: what goes wrong goes wrong in our own database.
And of its errors, a verdict on the key (a decline) is stored and replayed, while a failure (503) is not: the key is released, or
the client would be told 409 until the lease is over.`,
	Code: []string{"internal/idempotency/store.go", "internal/payment/finish.go", "internal/payment/flow.go",
		"migrations/000002_payments.up.sql"},
	Bound: time.Minute,
}, staleNumbers{Lease: time.Second}, staleNumbers{Lease: 300 * time.Millisecond}, runStaleHolder)

// staleNumbers are the document's, at full size.
type staleNumbers struct {
	Lease time.Duration `help:"How long a claim's lease lasts, by the database's clock."`
}

// staleVariant is one way to write the last step: the table that the row goes into, and whether the write is fenced.
type staleVariant struct {
	name, table string
	fenced      bool
}

// staleCase is a variant in one of the two orders, the document's rows for it, and what came of it.
type staleCase struct {
	staleVariant
	staleFirst   bool // A wakes while B still waits for the PSP
	documentRows int64
	documentWho  string

	a, b                 string // what became of each one's last step
	rows, asked, charges int64
}

const (
	wroteRow    = "wrote"
	rolledTwice = "duplicate, rolled back"
	rolledStale = "lease lost, rolled back"
)

func staleCases() []*staleCase {
	none := staleVariant{name: "no guard", table: "stale_plain"}
	unique := staleVariant{name: "UNIQUE (charge_id)", table: "stale_unique"}
	lease := staleVariant{name: "lease", table: "stale_plain", fenced: true}
	return []*staleCase{
		{staleVariant: none, documentRows: 2, documentWho: "A and B"},
		{staleVariant: none, staleFirst: true, documentRows: 2, documentWho: "A and B"},
		{staleVariant: unique, documentRows: 1, documentWho: "B"},
		{staleVariant: unique, staleFirst: true, documentRows: 1, documentWho: "A"},
		{staleVariant: lease, documentRows: 1, documentWho: "B"},
		{staleVariant: lease, staleFirst: true, documentRows: 1, documentWho: "B"},
	}
}

func runStaleHolder(ctx context.Context, env Env, _ Options, n staleNumbers) (r Report, err error) {
	cases := staleCases()
	err = env.withService(ctx, func(s *site) error {
		if err := createTables(ctx, s.db.DB,
			`CREATE TABLE stale_plain (order_id VARCHAR(64) NOT NULL, writer CHAR(1) NOT NULL, charge_id VARCHAR(64) NOT NULL, KEY (order_id))`,
			`CREATE TABLE stale_unique (order_id VARCHAR(64) NOT NULL, writer CHAR(1) NOT NULL, charge_id VARCHAR(64) NOT NULL, KEY (order_id),
				UNIQUE KEY charge (charge_id))`,
		); err != nil {
			return err
		}
		c, _, err := s.pspClient(psp.Config{MaxAttempts: 1})
		if err != nil {
			return err
		}
		defer c.Close()
		h := &holders{site: s, keys: idempotency.NewStore(s.db.DB), psp: c, lease: n.Lease}
		if err := crowd(ctx, len(cases), len(cases), func(ctx context.Context, i int) error {
			return h.play(ctx, fmt.Sprintf("stale-%d", i), cases[i])
		}); err != nil {
			return err
		}
		n.report(&r, cases)
		return h.pspErrors(ctx, &r)
	})
	return r, err
}

// holders are A and B: requests that work on one key through the service's own lease store and PSP client.
type holders struct {
	*site
	keys  *idempotency.Store
	psp   *psp.Client
	lease time.Duration
}

// claim claims the key of an order, which is named like it.
func (h *holders) claim(ctx context.Context, order string) (idempotency.Acquired, error) {
	key, err := idempotency.ParseKey([]string{order})
	if err != nil {
		return idempotency.Acquired{}, err
	}
	req := &paymentsv1.CreatePaymentRequest{OrderId: order, Amount: clickAmount, Currency: "EUR", PaymentMethod: "tok_visa"}
	return h.keys.Acquire(ctx, idempotency.Claim{UserID: user, Key: key, RPC: paymentsv1.PaymentService_CreatePayment_FullMethodName,
		Request: req, PaymentID: payment.NewID(), OrderID: order, Amount: req.GetAmount(), Currency: req.GetCurrency(), TTL: h.lease})
}

// takeOver claims again and again, as a client that is told 409 does, until the lease of whoever holds the key is over.
func (h *holders) takeOver(ctx context.Context, order string) (l idempotency.Lease, err error) {
	err = until(ctx, "the end of the lease", func() (bool, error) {
		got, err := h.claim(ctx, order)
		l = got.Lease
		var busy *idempotency.InProgressError
		if errors.As(err, &busy) {
			return false, nil
		}
		return true, err
	})
	return l, err
}

// charge asks the PSP, under the key that is the same for every holder.
func (h *holders) charge(ctx context.Context, l idempotency.Lease, method string) psp.Result {
	req := chargeRequest(idempotency.PSPKey(l.UserID, l.Key))
	req.PaymentMethod, req.MayExist = method, l.TakenOver()
	req.Metadata = psp.Metadata{UserID: l.UserID, PaymentID: l.PaymentID, OrderID: l.OrderID}
	return h.psp.Charge(ctx, req)
}

func (h *holders) charged(ctx context.Context, l idempotency.Lease) (psp.Charge, error) {
	res := h.charge(ctx, l, "tok_visa")
	if res.Kind != psp.Succeeded {
		return psp.Charge{}, fmt.Errorf("charge %s: %s: %w", l.OrderID, res.Kind, res.Err)
	}
	return *res.Charge, nil
}

// play has A freeze after its charge. Nothing here runs at the same time: a frozen process is one whose next step comes later.
func (h *holders) play(ctx context.Context, order string, c *staleCase) error {
	got, err := h.claim(ctx, order)
	if err != nil {
		return err
	}
	a := got.Lease
	chargeOfA, err := h.charged(ctx, a)
	if err != nil {
		return err
	}
	b, err := h.takeOver(ctx, order)
	if err != nil {
		return err
	}
	wakeA := func() (err error) { c.a, err = h.finish(ctx, c.staleVariant, "A", a, chargeOfA); return err }
	if c.staleFirst {
		if err := wakeA(); err != nil {
			return err
		}
	}
	chargeOfB, err := h.charged(ctx, b)
	if err != nil {
		return err
	}
	if c.b, err = h.finish(ctx, c.staleVariant, "B", b, chargeOfB); err != nil {
		return err
	}
	if !c.staleFirst {
		if err := wakeA(); err != nil {
			return err
		}
	}
	return h.countStale(ctx, c, a)
}

// finish is the last step: the payment's row and the key's answer in one transaction. It says what became of it.
func (h *holders) finish(ctx context.Context, v staleVariant, who string, l idempotency.Lease, charge psp.Charge) (string, error) {
	stored := idempotency.Stored{Code: 201, Body: []byte(who)}
	err := mysql.WithTx(ctx, h.db.DB, func(tx mysql.Querier) error {
		if v.fenced {
			if err := h.keys.Finish(ctx, tx, l, stored, false); err != nil { // the service's own, by token and holder
				return err
			}
		}
		insert := map[string]string{
			"stale_plain":  "INSERT INTO stale_plain (order_id, writer, charge_id) VALUES (?, ?, ?)",
			"stale_unique": "INSERT INTO stale_unique (order_id, writer, charge_id) VALUES (?, ?, ?)",
		}[v.table]
		if _, err := tx.ExecContext(ctx, insert, l.OrderID, who, charge.ID); err != nil {
			return err
		}
		if v.fenced {
			return nil
		}
		// By the key alone, whoever holds it.
		_, err := tx.ExecContext(ctx, `UPDATE idempotency_keys SET status = 'done', response_code = ?, response_body = ?
			WHERE user_id = ? AND idem_key = ?`, stored.Code, stored.Body, l.UserID, []byte(l.Key.String()))
		return err
	})
	switch {
	case errors.Is(err, idempotency.ErrLeaseLost):
		return rolledStale, nil
	case mysql.Duplicate(err):
		return rolledTwice, nil
	case err != nil:
		return "", fmt.Errorf("finish of %s: %w", who, err)
	}
	return wroteRow, nil
}

// countStale counts the rows, and what the PSP was asked and has charged.
func (h *holders) countStale(ctx context.Context, c *staleCase, l idempotency.Lease) (err error) {
	query := map[string]string{
		"stale_plain":  "SELECT COUNT(*) FROM stale_plain WHERE order_id = ?",
		"stale_unique": "SELECT COUNT(*) FROM stale_unique WHERE order_id = ?",
	}[c.table]
	if c.rows, err = h.count(ctx, query, l.OrderID); err != nil {
		return err
	}
	stats, err := h.site.psp.stats(ctx)
	if err != nil {
		return err
	}
	c.asked = stats.Keys[idempotency.PSPKey(l.UserID, l.Key)].Posts
	charges, err := h.site.psp.sim.ChargesOf(ctx, l.OrderID)
	c.charges = int64(len(charges))
	return err
}

// who says whose rows are there.
func (c *staleCase) who() string {
	var names []string
	for _, h := range []struct{ name, outcome string }{{"A", c.a}, {"B", c.b}} {
		if h.outcome == wroteRow {
			names = append(names, h.name)
		}
	}
	return strings.Join(names, " and ")
}

// order words which of the two comes first.
func (c *staleCase) order() string {
	if c.staleFirst {
		return "A wakes while B waits for the PSP"
	}
	return "B has finished before A wakes"
}

func (n staleNumbers) report(r *Report, cases []*staleCase) {
	t := Table{Title: fmt.Sprintf("A freezes after its charge; its lease of %s ends, and B takes the key over", ms(n.Lease)),
		Columns: []string{"last step", "order", "rows (document)", "rows", "A, the old holder", "B, the new one",
			"PSP asked", "PSP charged"}}
	p := Plot{Title: "Rows for one charge", Y: "rows", Series: []Series{{Name: "document", Document: true}, {Name: "here"}}}
	var charges int64
	for _, c := range cases {
		t.add(c.name, c.order(), fmt.Sprintf("%d: %s", c.documentRows, c.documentWho), fmt.Sprintf("%d: %s", c.rows, c.who()), c.a, c.b,
			fmt.Sprint(c.asked), fmt.Sprint(c.charges))
		p.Categories = append(p.Categories, fmt.Sprintf("%s, %s first", c.name, map[bool]string{true: "A", false: "B"}[c.staleFirst]))
		p.Series[0].Y = append(p.Series[0].Y, float64(c.documentRows))
		p.Series[1].Y = append(p.Series[1].Y, float64(c.rows))
		what := c.name + ", " + c.order()
		r.equal(what+": rows", c.documentRows, c.rows)
		r.same(what+": whose", c.documentWho, c.who())
		charges += c.charges
	}
	r.equal("charges at the PSP, one for each of the six", int64(len(cases)), charges)
	r.Tables, r.Plots = append(r.Tables, t), append(r.Plots, p)
}
