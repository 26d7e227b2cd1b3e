package lab

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"chargeonce/internal/mysql"
	"chargeonce/internal/psp"
)

// The two designs that this service does not have. Each is a server's handler without its HTTP: reply is what it would answer.

// oneTransaction is design A: the key, the work and the stored answer commit together or not at all. A crash leaves nothing, and a
// second request waits for the first one's row lock. All of the work has to be in this database.
type oneTransaction struct {
	db   *sql.DB
	work func(context.Context) error
}

func (a *oneTransaction) create(ctx context.Context) error {
	return createTables(ctx, a.db,
		`CREATE TABLE a_keys (user_id BIGINT NOT NULL, idem_key VARBINARY(255) NOT NULL, amount BIGINT NOT NULL, answer VARBINARY(255) NULL,
			PRIMARY KEY (user_id, idem_key))`,
		`CREATE TABLE a_payments (user_id BIGINT NOT NULL, id VARCHAR(40) NOT NULL, order_id VARCHAR(64) NOT NULL, amount BIGINT NOT NULL,
			PRIMARY KEY (user_id, id))`)
}

// createTables makes tables of an experiment's own.
func createTables(ctx context.Context, db *sql.DB, statements ...string) error {
	for _, statement := range statements {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("create a table: %w", err)
		}
	}
	return nil
}

// pay answers one request. The amount stands for the fingerprint of the request.
func (a *oneTransaction) pay(ctx context.Context, order string, amount int64) (r reply, err error) {
	began := time.Now()
	defer func() { r.took = time.Since(began) }()
	answer := []byte(fmt.Sprintf(`{"id":%q}`, uuid.NewString()))
	err = mysql.WithTx(ctx, a.db, func(tx mysql.Querier) error {
		// The arbiter. While another transaction has the row and has not ended, this statement waits for it.
		if _, err := tx.ExecContext(ctx, "INSERT INTO a_keys (user_id, idem_key, amount) VALUES (?, ?, ?)", user, order, amount); err != nil {
			return err
		}
		if err := a.work(ctx); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO a_payments (user_id, id, order_id, amount) VALUES (?, ?, ?, ?)",
			user, uuid.NewString(), order, amount); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE a_keys SET answer = ? WHERE user_id = ? AND idem_key = ?", answer, user, order)
		return err
	})
	if mysql.Duplicate(err) {
		return a.replay(ctx, order, amount)
	}
	return reply{status: http.StatusCreated, body: answer}, err
}

// replay answers by the row that another request has committed.
func (a *oneTransaction) replay(ctx context.Context, order string, amount int64) (reply, error) {
	var stored int64
	r := reply{status: http.StatusCreated, replayed: true}
	err := a.db.QueryRowContext(ctx, "SELECT amount, answer FROM a_keys WHERE user_id = ? AND idem_key = ?", user, order).Scan(&stored, &r.body)
	if stored != amount {
		r = reply{status: http.StatusUnprocessableEntity}
	}
	return r, err
}

// charges counts the payments, which in this design are the work itself.
func (a *oneTransaction) charges(ctx context.Context, order string) (n int64, err error) {
	err = a.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM a_payments WHERE user_id = ? AND order_id = ?", user, order).Scan(&n)
	return n, err
}

// checkThenAct looks whether the key is there, charges if not, and writes the key after. Nothing keeps two requests from looking
// before either has written; the unique key stops the second row, not the second charge.
type checkThenAct struct {
	db  *sql.DB
	psp *psp.Client
}

func (c *checkThenAct) create(ctx context.Context) error {
	return createTables(ctx, c.db,
		`CREATE TABLE unsafe_payments (user_id BIGINT NOT NULL, idem_key VARBINARY(255) NOT NULL, charge_id VARCHAR(64) NOT NULL,
			PRIMARY KEY (user_id, idem_key))`)
}

func (c *checkThenAct) pay(ctx context.Context, order string, amount int64) (r reply, err error) {
	began := time.Now()
	defer func() { r.took = time.Since(began) }()
	var id string
	err = c.db.QueryRowContext(ctx, "SELECT charge_id FROM unsafe_payments WHERE user_id = ? AND idem_key = ?", user, order).Scan(&id)
	switch {
	case err == nil:
		return reply{status: http.StatusOK, replayed: true}, nil
	case !errors.Is(err, sql.ErrNoRows):
		return reply{}, err
	}
	// The client's key is not passed on, so that the PSP gets another one each time.
	charge := chargeRequest(uuid.NewString())
	charge.Amount, charge.Metadata.OrderID = amount, order
	res := c.psp.Charge(ctx, charge)
	if res.Kind != psp.Succeeded {
		return reply{}, fmt.Errorf("charge: %s: %w", res.Kind, res.Err)
	}
	_, err = c.db.ExecContext(ctx, "INSERT INTO unsafe_payments (user_id, idem_key, charge_id) VALUES (?, ?, ?)", user, order, res.Charge.ID)
	if mysql.Duplicate(err) {
		return reply{status: http.StatusInternalServerError}, nil // the error that nobody thought of
	}
	return reply{status: http.StatusCreated}, err
}
