package main

import (
	"context"
	"database/sql"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chargeonce/internal/idempotency"
	"chargeonce/internal/mysql"
)

// sqlBlock is a query of the runbook.
var sqlBlock = regexp.MustCompile("(?s)```sql\n(.*?)```")

func runbookQueries(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, block := range sqlBlock.FindAllStringSubmatch(string(deployFile(t, "deploy", "runbook.md")), -1) {
		all = append(all, block[1])
	}
	if len(all) < 10 {
		t.Fatalf("the runbook was read wrong: %d queries", len(all))
	}
	return all
}

// Whoever is on call at night types the runbook's queries into the database as they stand: each runs on the schema as it is.
func TestTheRunbooksQueriesRun(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	for _, query := range runbookQueries(t) {
		if err := runs(t.Context(), db.DB, query); err != nil {
			t.Errorf("%v\n%s", err, query)
		}
	}
}

// runs reads a query to its end, where a fault of a row shows.
func runs(ctx context.Context, db *sql.DB, query string) (err error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
	}
	return rows.Err()
}

// The key by which the runbook asks the PSP is the one under which the service charges.
func TestTheRunbooksPSPKeyIsTheServices(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	expr := regexp.MustCompile(`SHA2\(CONCAT\('chargeonce psp key.*?\), 256\)`)
	seen := map[string]bool{}
	for _, query := range runbookQueries(t) {
		for _, e := range expr.FindAllString(query, -1) {
			seen[e] = true
		}
	}
	if len(seen) != 1 {
		t.Fatalf("%d ways to make the key: %v", len(seen), seen)
	}
	for e := range seen {
		for _, user := range []int64{1, 42, 1 << 40} {
			key, err := idempotency.ParseKey([]string{"k-7f3a"})
			if err != nil {
				t.Fatal(err)
			}
			var got, hint string
			stmt := "SELECT " + strings.NewReplacer("user_id", "?", "idem_key", "CAST(? AS BINARY)").Replace(e) + ", LEFT(SHA2(CAST(? AS BINARY), 256), 12)"
			if err := db.QueryRowContext(t.Context(), stmt, user, key.String(), key.String()).Scan(&got, &hint); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{idempotency.PSPKey(user, key), key.Hint()}, []string{got, hint}); diff != "" {
				t.Errorf("user %d: the service's (-), the runbook's (+):\n%s", user, diff)
			}
		}
	}
}
