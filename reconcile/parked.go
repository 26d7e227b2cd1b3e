package reconcile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"chargeonce/internal/idempotency"
	"chargeonce/internal/mysql"
	"chargeonce/internal/payment"
)

// ErrNotParked: there is no parked key for the payment id.
var ErrNotParked = errors.New("no key of that user and payment is parked")

// unparkFor is how long a key is held between its being put back to work and what is done with it then. If the process dies in
// between, the key is a stuck one, and the next pass looks at it.
const unparkFor = 30 * time.Second

// Parked is the desk of the person who decides about parked keys.
type Parked struct {
	db     *sql.DB
	keys   *idempotency.Store
	render payment.Renderer
}

// NewParked returns the desk on a database opened by package mysql. The renderer is the server's.
func NewParked(db *sql.DB, r payment.Renderer) *Parked {
	return &Parked{db: db, keys: idempotency.NewStore(db), render: r}
}

// List returns at most limit parked keys, oldest first.
func (p *Parked) List(ctx context.Context, limit int) ([]idempotency.Record, error) {
	return p.keys.Parked(ctx, limit)
}

// Requeue gives a parked key back to the flow: the next request or pass asks the PSP again and decides anew. It is for a person
// who has mended what was wrong at the PSP or here. The error is [ErrNotParked] or the database's.
func (p *Parked) Requeue(ctx context.Context, userID int64, paymentID string) error {
	lease, err := p.unpark(ctx, userID, paymentID)
	if err != nil {
		return err
	}
	return p.keys.Release(ctx, lease)
}

// Abandon ends a parked key as PAYMENT_ABANDONED: the client is told to start again with a new key. It asks the PSP nothing, so it is
// for a person who has made sure that no money of this purchase is kept there. The error is [ErrNotParked] or the database's.
func (p *Parked) Abandon(ctx context.Context, userID int64, paymentID string) error {
	answer, err := p.render.Render(payment.Result{Refusal: &payment.Refusal{Kind: payment.Abandoned}})
	if err != nil {
		return fmt.Errorf("render the answer: %w", err)
	}
	lease, err := p.unpark(ctx, userID, paymentID)
	if err != nil {
		return err
	}
	return mysql.WithTx(ctx, p.db, func(tx mysql.Querier) error {
		return p.keys.Finish(ctx, tx, lease, answer, true)
	})
}

func (p *Parked) unpark(ctx context.Context, userID int64, paymentID string) (idempotency.Lease, error) {
	row, err := p.keys.ByPayment(ctx, p.db, userID, paymentID)
	if errors.Is(err, idempotency.ErrNotFound) || err == nil && row.Status != idempotency.Parked {
		return idempotency.Lease{}, ErrNotParked
	}
	if err != nil {
		return idempotency.Lease{}, err
	}
	return p.keys.Unpark(ctx, row, unparkFor)
}
