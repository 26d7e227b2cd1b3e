package mysql

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"

	"chargeonce/migrations"
)

// TB is what [NewTestDB] needs of a testing.TB. Naming it here keeps package testing out of the product's binary.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// TestDB is a database of one test's own, migrated, and dropped when the test ends.
type TestDB struct {
	*sql.DB
	// DSN reaches this database, for a server or a proxy under test.
	DSN string
}

// NewTestDB makes one. The MySQL server is the one that MYSQL_DSN names, else the local one that `deploy/mysql/local up`
// started; without either the test fails, and never skips.
func NewTestDB(t TB) *TestDB {
	t.Helper()
	dsn := NewEmptyTestDB(t)
	db, err := Open(dsn, Options{})
	if err != nil {
		t.Fatalf("test database: %v", err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close the test database: %v", err)
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := migrations.Up(ctx, db); err != nil {
		t.Fatalf("test database: %v", err)
	}
	return &TestDB{DB: db, DSN: dsn}
}

// NewEmptyTestDB is [NewTestDB] without its tables: it returns the DSN of an empty database.
func NewEmptyTestDB(t TB) string {
	t.Helper()
	base, err := serverDSN()
	if err != nil {
		t.Fatalf("test database: %v", err)
	}
	cfg, err := mysql.ParseDSN(base)
	if err != nil {
		t.Fatalf("test database: MYSQL_DSN: %v", err)
	}
	var id [6]byte
	rand.Read(id[:]) // never fails (crypto/rand)
	name := fmt.Sprintf("test_%d_%s", os.Getpid(), hex.EncodeToString(id[:]))
	if err := admin(base, "CREATE DATABASE "+name); err != nil {
		t.Fatalf("test database: is MySQL up? (`make test` or `deploy/mysql/local up` starts it): %v", err)
	}
	t.Cleanup(func() {
		if err := admin(base, "DROP DATABASE "+name); err != nil {
			t.Errorf("drop the test database: %v", err)
		}
	})
	cfg.DBName = name
	return cfg.FormatDSN()
}

func admin(dsn, statement string) (err error) {
	db, err := Open(dsn, Options{MaxOpen: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_, err = db.ExecContext(ctx, statement)
	return err
}

var serverDSN = sync.OnceValues(func() (string, error) {
	if dsn := os.Getenv("MYSQL_DSN"); dsn != "" {
		return dsn, nil
	}
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(root, "deploy", "mysql", "local"), "dsn")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("no MySQL: MYSQL_DSN is not set, and `deploy/mysql/local dsn` says: %s(%w); run `deploy/mysql/local up`", stderr.String(), err)
	}
	return string(bytes.TrimSpace(out)), nil
})

func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod above the working folder")
		}
		dir = parent
	}
}
