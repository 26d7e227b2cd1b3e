package lab

import (
	"context"
	"errors"
	"fmt"
	"time"

	paymentsv1 "chargeonce/api/payments/v1"
	"chargeonce/api/payments/v1/client"
)

// newIntent is a purchase under a key of its own.
func newIntent(order string) client.Intent {
	return client.NewIntent(&paymentsv1.CreatePaymentRequest{
		OrderId: order, Amount: 1250, Currency: "EUR", PaymentMethod: "tok_visa", Description: "lab",
	})
}

// told is what a client was told of a purchase.
type told struct {
	// payment is set when it was charged.
	payment *paymentsv1.Payment
	// refusal is what the last answer was otherwise.
	refusal *client.Error
	tries   int
	began   time.Time
	took    time.Duration
	// err says that the client could not be used at all.
	err error
}

// String words it: the reason, or that it was charged.
func (t told) String() string {
	switch {
	case t.payment != nil:
		return "charged"
	case t.refusal == nil:
		return "nothing"
	case t.refusal.Reason == "":
		return "no answer"
	}
	return t.refusal.Reason
}

// pay sends one purchase with a client of its own.
func (s *site) pay(ctx context.Context, cfg client.Config, intent client.Intent) (t told) {
	c, err := client.New(cfg)
	if err != nil {
		return told{err: err}
	}
	defer func() { t.err = errors.Join(t.err, c.Close()) }()
	return payWith(ctx, c, intent)
}

func payWith(ctx context.Context, c *client.Client, intent client.Intent) told {
	t := told{began: time.Now()}
	out, err := c.Pay(ctx, intent)
	t.took = time.Since(t.began)
	var unknown *client.OutcomeUnknownError
	switch {
	case err == nil:
		t.payment, t.tries = out.Payment, out.Tries
		return t
	case errors.As(err, &unknown):
		t.tries = unknown.Tries
	}
	if !errors.As(err, &t.refusal) {
		t.err = fmt.Errorf("pay: %w", err)
	}
	return t
}

// released reports whether a key may be taken over by a retry, by the database's clock.
func (s *site) released(ctx context.Context, key client.Key) (bool, error) {
	n, err := s.count(ctx, `SELECT COUNT(*) FROM idempotency_keys
		WHERE user_id = ? AND idem_key = ? AND status = 'processing' AND locked_until <= NOW(3)`, user, []byte(key))
	return n == 1, err
}

// onceEach demands of each order one charge at the PSP and one payment row.
func (s *site) onceEach(ctx context.Context, r *Report, when string, orders ...string) error {
	charges, err := s.psp.sim.Charges(ctx)
	if err != nil {
		return err
	}
	of := map[string]int{}
	for _, c := range charges {
		of[c.Metadata["order_id"]]++
	}
	var charged, recorded int64
	for _, order := range orders {
		if of[order] == 1 {
			charged++
		}
		rows, err := s.count(ctx, "SELECT COUNT(*) FROM payments WHERE user_id = ? AND order_id = ?", user, order)
		if err != nil {
			return err
		}
		if rows == 1 {
			recorded++
		}
	}
	r.equal(when+": orders with one charge at the PSP", int64(len(orders)), charged)
	r.equal(when+": orders with one payment row", int64(len(orders)), recorded)
	return nil
}
