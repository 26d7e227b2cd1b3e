package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"chargeonce/internal/server"
	"chargeonce/internal/telemetry"
)

type apikeyCmd struct {
	Create apikeyCreateCmd `cmd:"" help:"Make an API key and print it, this once, to standard output."`
	List   apikeyListCmd   `cmd:"" help:"List API keys: their ids and hints, not the keys."`
	Revoke apikeyRevokeCmd `cmd:"" help:"End an API key. Servers stop taking it within 10 seconds."`
}

type apikeyCreateCmd struct {
	User int64 `required:"" help:"Whose key: a user id, greater than 0."`
}

func (c apikeyCreateCmd) Run(ctx context.Context, g *globals, tel *telemetry.Telemetry) error {
	return g.withDB(ctx, tel.Log, func(db *sql.DB) error {
		k, key, err := server.CreateAPIKey(ctx, db, c.User)
		if err != nil {
			return err
		}
		tel.Log.InfoContext(ctx, "API key made; it is shown this once", "user_id", k.UserID, "id", k.ID, "hint", k.Hint)
		_, err = fmt.Fprintln(os.Stdout, key.Reveal())
		return err
	})
}

type apikeyListCmd struct {
	User int64 `help:"Whose keys; 0: everybody's."`
}

func (c apikeyListCmd) Run(ctx context.Context, g *globals, tel *telemetry.Telemetry) error {
	return g.withDB(ctx, tel.Log, func(db *sql.DB) error {
		keys, err := server.ListAPIKeys(ctx, db, c.User)
		if err != nil {
			return err
		}
		w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
		if _, err := fmt.Fprintln(w, "USER\tID\tHINT\tCREATED\tREVOKED"); err != nil {
			return err
		}
		for _, k := range keys {
			revoked := "-"
			if !k.RevokedAt.IsZero() {
				revoked = k.RevokedAt.Format(time.RFC3339)
			}
			if _, err := fmt.Fprintf(w, "%d\t%s\t%s…\t%s\t%s\n", k.UserID, k.ID, k.Hint, k.CreatedAt.Format(time.RFC3339), revoked); err != nil {
				return err
			}
		}
		return w.Flush()
	})
}

type apikeyRevokeCmd struct {
	User int64  `required:"" help:"Whose key."`
	ID   string `arg:"" help:"The key's id, as list shows it."`
}

func (c apikeyRevokeCmd) Run(ctx context.Context, g *globals, tel *telemetry.Telemetry) error {
	return g.withDB(ctx, tel.Log, func(db *sql.DB) error {
		if err := server.RevokeAPIKey(ctx, db, c.User, c.ID); err != nil {
			return fmt.Errorf("user %d, %s: %w", c.User, c.ID, err)
		}
		return nil
	})
}
