package mysql

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"chargeonce/migrations"
)

// TB is what [NewTestDB] needs of a testing.TB. Naming it here keeps package testing out of the product's binary.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// TestDB is a database of one test's own, migrated, and dropped when the test ends. Its DSN is for a server or a proxy under test.
type TestDB = Scratch

// NewTestDB makes one. The MySQL server is the one that [FindServer] finds; without one the test fails, and never skips.
func NewTestDB(t TB) *TestDB {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	db := newTestDB(ctx, t)
	if err := migrations.Up(ctx, db.DB); err != nil {
		t.Fatalf("test database: %v", err)
	}
	return db
}

// NewEmptyTestDB is [NewTestDB] without its tables: it returns the DSN of an empty database.
func NewEmptyTestDB(t TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return newTestDB(ctx, t).DSN
}

func newTestDB(ctx context.Context, t TB) *TestDB {
	t.Helper()
	server, err := testServer()
	if err != nil {
		t.Fatalf("test database: %v", err)
	}
	db, err := NewScratch(ctx, server, fmt.Sprintf("test_%d_", os.Getpid()))
	if err != nil {
		t.Fatalf("test database: is MySQL up? (`make test` or `deploy/mysql/local up` starts it): %v", err)
	}
	db.SetMaxOpenConns(32)
	db.SetMaxIdleConns(32)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := db.Drop(ctx); err != nil {
			t.Errorf("drop the test database: %v", err)
		}
	})
	return db
}

// testServer is looked for once in a test binary.
var testServer = sync.OnceValues(func() (string, error) { return FindServer(context.Background()) })
