package idempotency

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"chargeonce/internal/mysql"
)

const (
	insertInto = `
		INSERT INTO idempotency_keys
		  (user_id, idem_key, request_hash, hash_version, status, lease, holder, locked_until,
		   payment_id, order_id, amount, currency, created_at, attempted_at, open_order, traceparent)
		VALUES `
	insertRow = `(?, ?, ?, ?, 'processing', 1, ?, NOW(3) + INTERVAL ? MICROSECOND, ?, ?, ?, ?, NOW(3), NOW(3), ?, ?)`
	insertSQL = insertInto + insertRow

	// A plain multi-row INSERT fails whole on one duplicate, and its locks on the duplicates deadlock its neighbours. An update that
	// changes nothing does neither; which rows are ours is then read by holder.
	orNothing = ` ON DUPLICATE KEY UPDATE user_id = user_id`

	holdersSQL = `SELECT holder FROM idempotency_keys WHERE (user_id, idem_key) IN (`
)

// newRow is a claim on its way into the table.
type newRow struct {
	Claim
	print  Fingerprint
	holder uuid.UUID
	trace  any // see traceparent
}

func (r newRow) args() []any {
	var order any
	if r.OnePerOrder {
		order = r.OrderID
	}
	return []any{r.UserID, []byte(r.Key.s), r.print[:], FingerprintVersion, r.holder[:], r.TTL.Microseconds(),
		r.PaymentID, r.OrderID, r.Amount, r.Currency, order, r.trace}
}

// insertOne is the claim in its plain form: one statement that commits by itself. A key or an order that is there already is a
// duplicate (see [mysql.Duplicate]).
func insertOne(ctx context.Context, db *sql.DB, r newRow) error {
	_, err := db.ExecContext(ctx, insertSQL, r.args()...)
	return err
}

// errNotOurs is what a coalesced claim fails with when its row is not there, or is somebody else's.
var errNotOurs = errors.New("the row is not ours")

// claims coalesces claims: those that wait anyway go into the table in one statement. The semantics are those of insertOne: a claim
// that did not get its row by it is read, and made again, one at a time.
type claims struct {
	db      *sql.DB
	timeout time.Duration
	queue   mysql.Coalescer[waitingClaim]
}

type waitingClaim struct {
	newRow
	done chan error // has room for the one answer, so that nobody waits for a claimant who has given up
}

// The numbers that were measured to serve best: a batch is what waits while the one before it commits.
const (
	coalesceWorkers = 2
	coalesceMost    = 128
)

func newClaims(db *sql.DB, timeout time.Duration) *claims {
	c := &claims{db: db, timeout: timeout}
	c.queue = mysql.Coalescer[waitingClaim]{Workers: coalesceWorkers, Most: coalesceMost, Run: c.run}
	return c
}

// insert has the claim inserted with those that wait. It returns nil when the row is there and ours, errNotOurs when it is not, and
// else an error after which the row has to be read.
func (c *claims) insert(ctx context.Context, r newRow) error {
	w := waitingClaim{newRow: r, done: make(chan error, 1)}
	c.queue.Add(w)
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		return ctx.Err() // it may still be inserted: an answer that was lost
	}
}

func (c *claims) run(batch []waitingClaim) {
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	if len(batch) == 1 {
		batch[0].done <- insertOne(ctx, c.db, batch[0].newRow)
		return
	}
	// In the order of the primary key, so that two batches that meet wait for one another and do not deadlock.
	slices.SortFunc(batch, func(a, b waitingClaim) int {
		return cmp.Or(cmp.Compare(a.UserID, b.UserID), cmp.Compare(a.Key.s, b.Key.s))
	})
	ours, err := c.insertAll(ctx, batch)
	for _, w := range batch {
		switch {
		case err != nil:
			w.done <- err
		case ours[w.holder]:
			w.done <- nil
		default:
			w.done <- errNotOurs
		}
	}
}

// insertAll inserts what is not there yet, and returns the holders whose rows are there.
func (c *claims) insertAll(ctx context.Context, batch []waitingClaim) (ours map[uuid.UUID]bool, err error) {
	var rows, keys []any
	for _, w := range batch {
		rows = append(rows, w.args()...)
		keys = append(keys, w.UserID, []byte(w.Key.s))
	}
	n := len(batch)
	if _, err := c.db.ExecContext(ctx, insertInto+times(insertRow, n)+orNothing, rows...); err != nil {
		return nil, fmt.Errorf("claim %d keys: %w", n, err)
	}
	found, err := c.db.QueryContext(ctx, holdersSQL+times("(?, ?)", n)+")", keys...)
	if err != nil {
		return nil, fmt.Errorf("claim %d keys: %w", n, err)
	}
	defer func() { err = errors.Join(err, found.Close()) }()
	ours = make(map[uuid.UUID]bool, n)
	for found.Next() {
		var holder []byte
		if err := found.Scan(&holder); err != nil {
			return nil, fmt.Errorf("claim %d keys: %w", n, err)
		}
		id, err := uuid.FromBytes(holder)
		if err != nil {
			return nil, fmt.Errorf("claim %d keys: %w", n, err)
		}
		ours[id] = true
	}
	return ours, found.Err()
}

func times(s string, n int) string { return strings.Repeat(s+", ", n-1) + s }
