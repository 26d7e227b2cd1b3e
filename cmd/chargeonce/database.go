package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"chargeonce/internal/mysql"
)

// databaseWait bounds how long a command waits for a database that is still starting.
const databaseWait = time.Minute

// openDB opens the database and waits until it answers.
func (g *globals) openDB(ctx context.Context, log *slog.Logger, o mysql.Options) (*sql.DB, error) {
	if g.MySQLDSN == "" {
		return nil, errors.New("no database: set --mysql-dsn, CHARGEONCE_MYSQL_DSN or MYSQL_DSN")
	}
	db, err := mysql.Open(g.MySQLDSN.Reveal(), o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, databaseWait)
	defer cancel()
	log.DebugContext(ctx, "waiting for the database", "at_most", databaseWait)
	if err := mysql.Wait(ctx, db); err != nil {
		return nil, errors.Join(fmt.Errorf("database: %w", err), db.Close())
	}
	return db, nil
}

// withDB runs do with the database open.
func (g *globals) withDB(ctx context.Context, log *slog.Logger, do func(*sql.DB) error) error {
	db, err := g.openDB(ctx, log, mysql.Options{MaxOpen: 4})
	if err != nil {
		return err
	}
	return errors.Join(do(db), db.Close())
}
