package reconcile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"chargeonce/internal/mysql"
)

const (
	readMarkSQL   = `SELECT mark FROM reconcile_marks WHERE name = ?`
	insertMarkSQL = `INSERT INTO reconcile_marks (name, mark, updated_at) VALUES (?, ?, NOW(3))`
	moveMarkSQL   = `UPDATE reconcile_marks SET mark = ?, updated_at = NOW(3) WHERE name = ? AND mark = ?`
)

// The marks: how far something that is read in order has been dealt with.
const (
	statementMark    = "psp_statement"
	purgeMark        = "purged_keys"
	purgeChargedMark = "purged_charged_keys"
)

// moveTries bounds how often a mark is read again because another process moved it meanwhile.
const moveTries = 8

// mark reads a mark; the zero time when there is none yet.
func (p *pass) mark(ctx context.Context, name string) (time.Time, error) {
	ctx, cancel := p.bound(ctx)
	defer cancel()
	return readMark(ctx, p.cfg.DB, name)
}

func readMark(ctx context.Context, q mysql.Querier, name string) (time.Time, error) {
	var at time.Time
	err := q.QueryRowContext(ctx, readMarkSQL, name).Scan(&at)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, fmt.Errorf("read the mark %s: %w", name, err)
	}
	return at, nil
}

// moveMark brings a mark forward to at, and never back: by compare-and-set, since other processes move it too. A move whose
// answer is lost is settled by the next reading.
func (p *pass) moveMark(ctx context.Context, name string, at time.Time) error {
	if p.cfg.DryRun {
		return nil
	}
	ctx, cancel := p.bound(ctx)
	defer cancel()
	at = at.UTC().Truncate(time.Millisecond)
	for range moveTries {
		now, err := readMark(ctx, p.cfg.DB, name)
		if err != nil || !now.Before(at) {
			return err
		}
		if now.IsZero() {
			_, err = p.cfg.DB.ExecContext(ctx, insertMarkSQL, name, at)
		} else {
			_, err = p.cfg.DB.ExecContext(ctx, moveMarkSQL, at, name, now)
		}
		if err != nil && !mysql.Duplicate(err) && !mysql.AnswerLost(err) && !mysql.Contended(err) {
			return fmt.Errorf("move the mark %s: %w", name, err)
		}
	}
	return fmt.Errorf("move the mark %s: others keep moving it", name)
}
