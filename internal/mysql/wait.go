package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"time"
)

// waitLogEvery is how often a wait that goes on is logged.
const waitLogEvery = 5 * time.Second

// Wait pings until the database answers or ctx ends, and then returns the last error. The pauses grow to one second and are
// jittered. What waiting does not heal, such as a wrong password, ends it at once. log says from time to time what is waited for.
func Wait(ctx context.Context, db *sql.DB, log *slog.Logger) error {
	start := time.Now()
	var told time.Time
	for n := 0; ; n++ {
		err := db.PingContext(ctx)
		if err == nil {
			if n > 0 {
				log.InfoContext(ctx, "the database answers", "waited", time.Since(start).Round(time.Millisecond))
			}
			return nil
		}
		if !Unavailable(err) {
			return fmt.Errorf("mysql: %w", err)
		}
		if time.Since(told) >= waitLogEvery {
			told = time.Now()
			log.WarnContext(ctx, "waiting for the database", "waited", time.Since(start).Round(time.Millisecond), "error", err)
		}
		if Pause(ctx, n, time.Second) != nil {
			return fmt.Errorf("mysql: not reachable in time: %w", err)
		}
	}
}
