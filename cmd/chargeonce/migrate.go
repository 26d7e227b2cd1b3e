package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"

	"chargeonce/internal/telemetry"
	"chargeonce/migrations"
)

type migrateCmd struct {
	Up      migrateUpCmd      `cmd:"" help:"Take every step that is missing. Safe when several do it at once."`
	Down    migrateDownCmd    `cmd:"" help:"Take steps back. This deletes what they hold."`
	Version migrateVersionCmd `cmd:"" help:"Print the schema's version, and what this build needs."`
	Force   migrateForceCmd   `cmd:"" help:"Record a version without taking a step, after a dirty schema was repaired by hand."`
}

type migrateUpCmd struct{}

func (migrateUpCmd) Run(ctx context.Context, g *globals, tel *telemetry.Telemetry) error {
	return g.withDB(ctx, tel.Log, func(db *sql.DB) error {
		if err := migrations.Up(ctx, db); err != nil {
			return err
		}
		return printVersion(ctx, db)
	})
}

type migrateDownCmd struct {
	Steps int  `xor:"how" required:"" help:"How many."`
	All   bool `xor:"how" required:"" help:"All of them: an empty database."`
}

func (c migrateDownCmd) Run(ctx context.Context, g *globals, tel *telemetry.Telemetry) error {
	if !c.All && c.Steps <= 0 {
		return fmt.Errorf("--steps: %d: want a positive number", c.Steps)
	}
	return g.withDB(ctx, tel.Log, func(db *sql.DB) error {
		if err := migrations.Down(ctx, db, c.Steps); err != nil {
			return err
		}
		return printVersion(ctx, db)
	})
}

type migrateVersionCmd struct{}

func (migrateVersionCmd) Run(ctx context.Context, g *globals, tel *telemetry.Telemetry) error {
	return g.withDB(ctx, tel.Log, func(db *sql.DB) error { return printVersion(ctx, db) })
}

type migrateForceCmd struct {
	To int `arg:"" name:"version" help:"The version that the schema is at."`
}

func (c migrateForceCmd) Run(ctx context.Context, g *globals, tel *telemetry.Telemetry) error {
	return g.withDB(ctx, tel.Log, func(db *sql.DB) error {
		if err := migrations.Force(ctx, db, c.To); err != nil {
			return err
		}
		return printVersion(ctx, db)
	})
}

func printVersion(ctx context.Context, db *sql.DB) error {
	s, err := migrations.Version(ctx, db)
	if err != nil {
		return err
	}
	dirty := ""
	if s.Dirty {
		dirty = " (dirty)"
	}
	_, err = fmt.Fprintf(os.Stdout, "version %d%s, this build needs %d\n", s.Version, dirty, migrations.Latest())
	return err
}
