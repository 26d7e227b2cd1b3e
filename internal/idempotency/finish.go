package idempotency

import (
	"context"
	"fmt"
	"strings"

	"chargeonce/internal/mysql"
)

// Finished is one lease's end among those that [Store.FinishAll] stores together.
type Finished struct {
	Lease  Lease
	Stored Stored
}

// FinishAll is [Store.Finish] for many leases in one statement, each row matched by its own key, lease and holder. Unless every one of
// them matches it fails with [ErrLeaseLost], and the caller rolls back and finishes each by itself. No order is freed.
func (s *Store) FinishAll(ctx context.Context, tx mysql.Querier, all []Finished) error {
	var (
		n              = len(all)
		holders        = make([]any, 0, n)
		codes, bodies  = make([]any, 0, n), make([]any, 0, n)
		match          = make([]any, 0, 4*n)
		oneOf          = strings.Repeat(", ?", n)
		statementParts = []string{
			// A holder is minted for every claim, so it tells the rows apart.
			`UPDATE idempotency_keys SET status = 'done', completed_at = NOW(3),
			 response_code = ELT(FIELD(holder`, oneOf, `)`, oneOf, `), response_body = ELT(FIELD(holder`, oneOf, `)`, oneOf, `)
			 WHERE status = 'processing' AND (`,
			strings.Repeat(` OR (user_id = ? AND idem_key = ? AND lease = ? AND holder = ?)`, n)[len(" OR "):], `)`,
		}
	)
	for _, f := range all {
		l := f.Lease
		holders = append(holders, l.Holder[:])
		codes = append(codes, f.Stored.Code)
		bodies = append(bodies, f.Stored.Body)
		match = append(match, l.UserID, []byte(l.Key.s), l.Token, l.Holder[:])
	}
	args := make([]any, 0, 8*n)
	for _, part := range [][]any{holders, codes, holders, bodies, match} {
		args = append(args, part...)
	}
	res, err := tx.ExecContext(ctx, strings.Join(statementParts, ""), args...)
	if err != nil {
		return fmt.Errorf("finish %d keys: %w", n, err)
	}
	matched, err := res.RowsAffected()
	if err != nil {
		return fmt.Errorf("finish %d keys: %w", n, err)
	}
	if matched != int64(n) {
		return fmt.Errorf("finish %d keys, %d matched: %w", n, matched, ErrLeaseLost)
	}
	return nil
}
