package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"chargeonce/internal/mysql"
)

// The service's own statements, in its one-at-a-time form. A test compares them with the service's source.
const (
	claimSQL = `
		INSERT INTO idempotency_keys
		  (user_id, idem_key, request_hash, hash_version, status, lease, holder, locked_until,
		   payment_id, order_id, amount, currency, created_at, attempted_at, open_order, traceparent)
		VALUES (?, ?, ?, ?, 'processing', 1, ?, NOW(3) + INTERVAL ? MICROSECOND, ?, ?, ?, ?, NOW(3), NOW(3), ?, ?)`

	finishSQL = `
		UPDATE idempotency_keys
		SET status = 'done', response_code = ?, response_body = ?, completed_at = NOW(3), open_order = IF(?, NULL, open_order)
		WHERE user_id = ? AND idem_key = ? AND status = 'processing' AND lease = ? AND holder = ?`

	paymentSQL = `
		INSERT INTO payments (user_id, id, order_id, amount, currency, status, charge_id, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
)

// answerBytes is about as long as the service's stored answer.
const answerBytes = 270

// ceiling makes payments by the bare SQL, one at a time per connection: what no service that pays one at a time can exceed on
// this database.
type ceiling struct {
	site  *site
	db    *sql.DB
	conns []*sql.Conn // by worker
	// before is what was in the tables already.
	before rows
	paid   atomic.Int64
}

func (s *site) newCeiling(ctx context.Context, n int) (c *ceiling, err error) {
	c = &ceiling{site: s}
	if c.db, err = mysql.Open(s.db.DSN, mysql.Options{MaxOpen: n}); err != nil {
		return nil, err
	}
	if c.before, err = s.rows(ctx); err != nil {
		return nil, errors.Join(err, c.close(ctx))
	}
	for range n {
		conn, err := c.db.Conn(ctx)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("bare SQL: %w", err), c.close(ctx))
		}
		c.conns = append(c.conns, conn)
	}
	return c, nil
}

// buy is one payment: the claim, which commits by itself, and the finish, which is a transaction.
func (c *ceiling) buy(ctx context.Context, worker int) error {
	var (
		conn   = c.conns[worker]
		p      = newPurchase()
		user   = p.user + 1
		hash   = [32]byte{}
		holder = [16]byte{}
		id     = timeOrdered("pay_")
		charge = timeOrdered("ch_")
		now    = time.Now().UTC().Truncate(time.Millisecond)
		body   = strings.Repeat("x", answerBytes)
	)
	for i := range holder {
		holder[i] = byte(rand.Uint32())
	}
	for _, s := range []struct {
		query string
		args  []any
	}{
		{claimSQL, []any{user, []byte(p.key), hash[:], 1, holder[:], 16_000_000, id, p.order, amount, currency, nil, nil}},
		{"START TRANSACTION", nil},
		{finishSQL, []any{201, []byte(body), false, user, []byte(p.key), 1, holder[:]}},
		{paymentSQL, []any{user, id, p.order, amount, currency, "succeeded", charge, now, now}},
		{"COMMIT", nil},
	} {
		if _, err := conn.ExecContext(ctx, s.query, s.args...); err != nil {
			return fmt.Errorf("bare SQL: %w", err)
		}
	}
	c.paid.Add(1)
	return nil
}

// timeOrdered mints an id that is greater than all before it, as those of the service and of its PSP are.
func timeOrdered(prefix string) string {
	return fmt.Sprintf("%s%016x-%016x", prefix, time.Now().UnixNano(), rand.Uint64())
}

func (c *ceiling) processes() processes {
	return processes{procMySQL: c.site.mysql.pid}
}

func (c *ceiling) refusals() map[string]int64 { return nil }

// check demands a row for each payment. No PSP is asked.
func (c *ceiling) check(ctx context.Context) (books, error) {
	r, err := c.site.rows(ctx)
	if err != nil {
		return books{}, err
	}
	paid := c.paid.Load()
	return books{Payments: paid}, agree(paid, r.since(c.before), paid)
}

func (c *ceiling) close(context.Context) error {
	var errs []error
	for _, conn := range c.conns {
		errs = append(errs, conn.Close())
	}
	return errors.Join(append(errs, c.db.Close())...)
}
