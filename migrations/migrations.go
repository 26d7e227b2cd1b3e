// Package migrations holds the schema as numbered steps and brings a database up or down along them.
//
// A file holds one statement: MySQL's DDL commits by itself, so a file of two could be left half done. A step must leave the
// release before it working (expand first, contract a release later), so that a rolling deploy and a rollback both work.
package migrations

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/golang-migrate/migrate/v4"
	migratemysql "github.com/golang-migrate/migrate/v4/database/mysql"
	"github.com/golang-migrate/migrate/v4/source"
	"github.com/golang-migrate/migrate/v4/source/iofs"
)

//go:embed *.sql
var files embed.FS

// Files returns the embedded steps, NNNNNN_name.up.sql and .down.sql.
func Files() fs.FS { return files }

// Latest is the version that this build needs: the number of its last step.
var Latest = sync.OnceValue(func() uint {
	src, err := iofs.New(files, ".")
	if err != nil {
		panic(fmt.Sprintf("migrations: the embedded files are unreadable: %v", err)) // a build without them can do nothing
	}
	v, err := last(src)
	if err != nil {
		panic(fmt.Sprintf("migrations: the embedded files are unreadable: %v", err))
	}
	return v
})

func last(src source.Driver) (uint, error) {
	v, err := src.First()
	for err == nil {
		var next uint
		if next, err = src.Next(v); err == nil {
			v = next
		}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	return v, nil
}

// State is what a database says of its schema. Version 0 means that no step was ever taken.
type State struct {
	Version uint
	// Dirty: a step began and did not end. A person has to look at what it left.
	Dirty bool
}

// OutdatedError says that the schema is older than this build needs, or dirty. serve must not start on it.
type OutdatedError struct {
	State
	Need uint
}

func (e *OutdatedError) Error() string {
	if e.Dirty {
		return fmt.Sprintf("the schema is dirty at version %d: a migration began and did not end; "+
			"repair what it left, then run `chargeonce migrate force %d` (it is complete) or `force %d` (it is undone)",
			e.Version, e.Version, e.Version-1)
	}
	return fmt.Sprintf("the schema is at version %d and this build needs %d; run `chargeonce migrate up`", e.Version, e.Need)
}

// Check reads the schema's state and returns an *[OutdatedError] if this build cannot run on it. A schema newer than
// [Latest] is no error: it is the middle of a rolling deploy, or a rollback.
func Check(ctx context.Context, db *sql.DB) (State, error) {
	s, err := Version(ctx, db)
	if err != nil {
		return s, err
	}
	if s.Dirty || s.Version < Latest() {
		return s, &OutdatedError{State: s, Need: Latest()}
	}
	return s, nil
}

// Version reads the schema's state. It writes nothing.
func Version(ctx context.Context, db *sql.DB) (State, error) {
	var n int
	err := db.QueryRowContext(ctx, `SELECT COUNT(*) FROM information_schema.tables
		WHERE table_schema = DATABASE() AND table_name = 'schema_migrations'`).Scan(&n)
	if err != nil {
		return State{}, fmt.Errorf("migrations: look for schema_migrations: %w", err)
	}
	if n == 0 {
		return State{}, nil
	}
	var s State
	err = db.QueryRowContext(ctx, `SELECT version, dirty FROM schema_migrations LIMIT 1`).Scan(&s.Version, &s.Dirty)
	if errors.Is(err, sql.ErrNoRows) {
		return State{}, nil
	}
	if err != nil {
		return State{}, fmt.Errorf("migrations: read schema_migrations: %w", err)
	}
	return s, nil
}

// Up takes every step that is missing. Two that run at once wait for one another (MySQL's GET_LOCK).
func Up(ctx context.Context, db *sql.DB) error {
	return run(ctx, db, func(m *migrate.Migrate) error {
		v, _, err := m.Version()
		if err != nil && !errors.Is(err, migrate.ErrNilVersion) {
			return err
		}
		if v > Latest() {
			return nil // newer than this build: there is nothing to do, and no file here to do it with
		}
		return m.Up()
	})
}

// Down takes n steps back, or all of them when n is 0. It deletes what those steps hold.
func Down(ctx context.Context, db *sql.DB, n int) error {
	return run(ctx, db, func(m *migrate.Migrate) error {
		if n == 0 {
			return m.Down()
		}
		return m.Steps(-n)
	})
}

// Force records version as clean without taking a step: for a person who has repaired a dirty schema by hand.
func Force(ctx context.Context, db *sql.DB, version int) error {
	return run(ctx, db, func(m *migrate.Migrate) error { return m.Force(version) })
}

func run(ctx context.Context, db *sql.DB, do func(*migrate.Migrate) error) (err error) {
	src, err := iofs.New(files, ".")
	if err != nil {
		return fmt.Errorf("migrations: read the embedded files: %w", err)
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("migrations: connect: %w", err)
	}
	driver, err := migratemysql.WithConnection(ctx, conn, &migratemysql.Config{})
	if err != nil {
		return errors.Join(fmt.Errorf("migrations: %w", err), conn.Close())
	}
	m, err := migrate.NewWithInstance("embedded", src, "mysql", driver)
	if err != nil {
		return errors.Join(fmt.Errorf("migrations: %w", err), driver.Close())
	}
	// The driver closes the one connection that it was given; the pool stays open.
	defer func() {
		srcErr, dbErr := m.Close()
		err = errors.Join(err, srcErr, dbErr)
	}()
	stopped := make(chan struct{})
	defer close(stopped)
	go func() {
		select {
		case <-ctx.Done():
			m.GracefulStop <- true // ends after the step that runs: a step is never cut in the middle
		case <-stopped:
		}
	}()
	if err := do(m); err != nil && !errors.Is(err, migrate.ErrNoChange) {
		return fmt.Errorf("migrations: %w", err)
	}
	return context.Cause(ctx)
}
