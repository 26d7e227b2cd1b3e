package migrations_test

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chargeonce/internal/mysql"
	"chargeonce/migrations"
)

func open(t *testing.T) (*sql.DB, context.Context) {
	t.Helper()
	db, err := mysql.Open(mysql.NewEmptyTestDB(t), mysql.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return db, ctx
}

// schema describes every column and index of the database.
func schema(t *testing.T, ctx context.Context, db *sql.DB) []string {
	t.Helper()
	rows, err := db.QueryContext(ctx, `
		SELECT CONCAT_WS(' ', table_name, column_name, column_type, is_nullable, IFNULL(collation_name, ''))
		FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name <> 'schema_migrations'
		UNION ALL
		SELECT CONCAT_WS(' ', table_name, index_name, seq_in_index, column_name, non_unique)
		FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name <> 'schema_migrations'
		ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := rows.Close(); err != nil {
			t.Error(err)
		}
	}()
	var out []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestUpDownAndUpAgain(t *testing.T) {
	t.Parallel()
	db, ctx := open(t)
	if s, err := migrations.Version(ctx, db); err != nil || s != (migrations.State{}) {
		t.Fatalf("an empty database is at %+v, %v", s, err)
	}
	if err := migrations.Up(ctx, db); err != nil {
		t.Fatal(err)
	}
	first := schema(t, ctx, db)
	if len(first) == 0 {
		t.Fatal("no tables")
	}
	if err := migrations.Up(ctx, db); err != nil {
		t.Fatalf("up when it is up: %v", err)
	}
	if err := migrations.Down(ctx, db, 0); err != nil {
		t.Fatal(err)
	}
	if left := schema(t, ctx, db); len(left) != 0 {
		t.Fatalf("left after down: %v", left)
	}
	if err := migrations.Up(ctx, db); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, schema(t, ctx, db)); diff != "" {
		t.Errorf("the second up made another schema (-first +second):\n%s", diff)
	}
}

func TestEveryStepGoesDownAlone(t *testing.T) {
	t.Parallel()
	db, ctx := open(t)
	if err := migrations.Up(ctx, db); err != nil {
		t.Fatal(err)
	}
	for v := migrations.Latest(); v > 0; v-- {
		if err := migrations.Down(ctx, db, 1); err != nil {
			t.Fatalf("down from %d: %v", v, err)
		}
		if s, err := migrations.Version(ctx, db); err != nil || s.Version != v-1 || s.Dirty {
			t.Fatalf("down from %d leads to %+v, %v", v, s, err)
		}
	}
}

func TestTwoAtOnceWaitForOneAnother(t *testing.T) {
	t.Parallel()
	db, ctx := open(t)
	got := make(chan error, 4)
	for range cap(got) {
		go func() { got <- migrations.Up(ctx, db) }()
	}
	for range cap(got) {
		if err := <-got; err != nil {
			t.Error(err)
		}
	}
	if _, err := migrations.Check(ctx, db); err != nil {
		t.Error(err)
	}
}

func TestCheckRefusesOlderAndDirtyAndTakesNewer(t *testing.T) {
	t.Parallel()
	db, ctx := open(t)
	var outdated *migrations.OutdatedError

	_, err := migrations.Check(ctx, db)
	if !errors.As(err, &outdated) || outdated.Version != 0 || !strings.Contains(err.Error(), "version 0") {
		t.Errorf("no schema: %v", err)
	}
	if err := migrations.Up(ctx, db); err != nil {
		t.Fatal(err)
	}
	if err := migrations.Down(ctx, db, 1); err != nil {
		t.Fatal(err)
	}
	if _, err = migrations.Check(ctx, db); !errors.As(err, &outdated) || outdated.Version != migrations.Latest()-1 {
		t.Errorf("older: %v", err)
	}
	if err := migrations.Up(ctx, db); err != nil {
		t.Fatal(err)
	}
	set := func(version uint, dirty bool) {
		t.Helper()
		if _, err := db.ExecContext(ctx, `UPDATE schema_migrations SET version = ?, dirty = ?`, version, dirty); err != nil {
			t.Fatal(err)
		}
	}
	set(migrations.Latest(), true)
	if _, err = migrations.Check(ctx, db); !errors.As(err, &outdated) || !outdated.Dirty || !strings.Contains(err.Error(), "dirty") {
		t.Errorf("dirty: %v", err)
	}
	set(migrations.Latest()+1, false)
	if s, err := migrations.Check(ctx, db); err != nil || s.Version != migrations.Latest()+1 {
		t.Errorf("newer: %+v, %v; want no error, since a rolling deploy looks like this", s, err)
	}
	if err := migrations.Up(ctx, db); err != nil {
		t.Errorf("up on a newer schema: %v; want nothing to happen", err)
	}
}

// A step that fails half-way cannot be rolled back (DDL commits by itself): so each file holds one statement.
func TestEveryFileHoldsOneStatementAndHasItsReverse(t *testing.T) {
	t.Parallel()
	names, err := fs.Glob(migrations.Files(), "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(migrations.Files(), name)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), ";"); n != 1 {
			t.Errorf("%s has %d semicolons; want one statement", name, n)
		}
		if up, ok := strings.CutSuffix(name, ".up.sql"); ok {
			if _, err := fs.Stat(migrations.Files(), up+".down.sql"); err != nil {
				t.Errorf("%s has no .down.sql: %v", name, err)
			}
		}
	}
}
