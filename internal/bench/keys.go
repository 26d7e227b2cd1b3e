package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
)

// stock is the keys that a table holds before it is measured. Row j of a user has the key keyAt(j); they are spread evenly over all
// that a new key may be, so that new ones fall anywhere among them. Their request is the seed's, whose fingerprint a server has
// taken: so a server replays them, and refuses those that are in progress.
type stock struct {
	seed    purchase
	perUser int
}

const (
	// inProgressEvery is which share of the stock is in progress, under leases of a day: one in so many.
	inProgressEvery = 10
	// loadChunk is how many rows one statement of the load writes.
	loadChunk = 20_000
)

// keyAt is the key of the stock's row j of any user. loadKeysSQL makes the same.
func (st stock) keyAt(j int) string {
	return fmt.Sprintf("%08x-%08x", uint64(j)*(1<<32)/uint64(st.perUser), j)
}

// done and inProgress pick a purchase of the stock.
func (st stock) done() purchase {
	j := 1 + rand.IntN(st.perUser-1)
	if j%inProgressEvery == 0 {
		j--
	}
	return st.pick(j)
}

func (st stock) inProgress() purchase {
	return st.pick(rand.IntN((st.perUser+inProgressEvery-1)/inProgressEvery) * inProgressEvery)
}

func (st stock) pick(j int) purchase {
	return purchase{user: rand.IntN(users), key: st.keyAt(j), order: st.seed.order}
}

// The rows j from the first parameter up to the second, without it, are copies of the seed's row under keys and payment ids of their own.
const (
	numbersSQL = `WITH RECURSIVE n (j) AS (SELECT ? UNION ALL SELECT j + 1 FROM n WHERE j + 1 < ?)`

	loadKeysSQL = `
		INSERT /*+ SET_VAR(cte_max_recursion_depth = 1000000) */ INTO idempotency_keys
		  (user_id, idem_key, request_hash, hash_version, status, lease, holder, locked_until, payment_id, order_id, amount, currency,
		   response_code, response_body, created_at, attempted_at, completed_at)
		` + numbersSQL + `
		SELECT ?, CONCAT(LPAD(LOWER(HEX(j * 4294967296 DIV ?)), 8, '0'), '-', LPAD(LOWER(HEX(j)), 8, '0')),
		  seed.request_hash, seed.hash_version, IF(j MOD ? = 0, 'processing', 'done'), 1, UNHEX(LEFT(SHA2(CONCAT(?, '-', j), 256), 32)),
		  NOW(3) + INTERVAL 1 DAY, CONCAT('pay_stock-', LPAD(HEX(j), 8, '0')), seed.order_id, seed.amount, seed.currency,
		  IF(j MOD ? = 0, NULL, seed.response_code),
		  IF(j MOD ? = 0, NULL, REPLACE(seed.response_body, seed.payment_id, CONCAT('pay_stock-', LPAD(HEX(j), 8, '0')))),
		  NOW(3), NOW(3), IF(j MOD ? = 0, NULL, NOW(3))
		FROM n, (SELECT * FROM idempotency_keys WHERE user_id = ? AND idem_key = ?) AS seed`

	loadPaymentsSQL = `
		INSERT /*+ SET_VAR(cte_max_recursion_depth = 1000000) */ INTO payments
		  (user_id, id, order_id, amount, currency, status, charge_id, created_at, updated_at)
		` + numbersSQL + `
		SELECT ?, CONCAT('pay_stock-', LPAD(HEX(j), 8, '0')), ?, ?, ?, 'succeeded', CONCAT('ch_stock-', ?, '-', LPAD(HEX(j), 8, '0')), NOW(3), NOW(3)
		FROM n WHERE j MOD ? <> 0`
)

// load fills the tables with n keys, nine in ten of them paid. Every user gets as many as every other; n is rounded up to that. say is
// told the share that is done.
func (s *site) load(ctx context.Context, n int, say func(share float64)) (stock, error) {
	st := stock{seed: newPurchase(), perUser: max(2, (n+users-1)/users)}
	if err := s.empty(ctx); err != nil {
		return st, err
	}
	if err := s.sow(ctx, st.seed); err != nil {
		return st, err
	}
	const every = inProgressEvery
	for user := 1; user <= users; user++ {
		for from := 0; from < st.perUser; from += loadChunk {
			to := min(st.perUser, from+loadChunk)
			if _, err := s.db.ExecContext(ctx, loadKeysSQL, from, to, user, st.perUser, every, user, every, every, every,
				st.seed.user+1, []byte(st.seed.key)); err != nil {
				return st, fmt.Errorf("load keys: %w", err)
			}
			if _, err := s.db.ExecContext(ctx, loadPaymentsSQL, from, to, user, st.seed.order, amount, currency, user, every); err != nil {
				return st, fmt.Errorf("load payments: %w", err)
			}
			say(float64((user-1)*st.perUser+to) / float64(users*st.perUser))
		}
	}
	_, err := s.db.ExecContext(ctx, "ANALYZE TABLE idempotency_keys, payments")
	if err != nil {
		return st, fmt.Errorf("load keys: %w", err)
	}
	return st, nil
}

// sow has a server of its own pay the seed, and ends it.
func (s *site) sow(ctx context.Context, seed purchase) (err error) {
	v, err := s.newService(ctx, Form{Face: REST}, Condition{}, 1)
	if err != nil {
		return err
	}
	defer func() { err = joinClose(ctx, err, v) }()
	if err := v.tally.until(ctx, v.callers[0], seed, func(a answer) bool { return a.charged }); err != nil {
		return err
	}
	v.tally.buy()
	_, err = v.check(ctx)
	return err
}

// replay asks again for a purchase of the stock that is paid.
func (v *service) replay(st stock) operation {
	return func(ctx context.Context, worker int) error {
		return v.tally.until(ctx, v.callers[worker], st.done(), func(a answer) bool { return a.charged && a.replayed })
	}
}

// collide asks for a purchase of the stock that is in progress. That is told to come again, and is not: the refusal is what is
// measured.
func (v *service) collide(st stock) operation {
	return func(ctx context.Context, worker int) error {
		return v.tally.until(ctx, v.callers[worker], st.inProgress(), func(a answer) bool { return a.reason == reasonInProgress })
	}
}
