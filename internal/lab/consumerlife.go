package lab

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"chargeonce/internal/mysql"
	"chargeonce/internal/rig"
)

// withDatabase runs do on a site that has an empty database alone.
func (e Env) withDatabase(ctx context.Context, do func(*site) error) error {
	return e.on(ctx, do, func(s *site) (err error) {
		server := e.DSN
		if server == "" {
			if server, err = rig.FindMySQL(ctx); err != nil {
				return err
			}
		}
		s.db, err = rig.NewDatabase(ctx, server, "chargeonce_lab_")
		return err
	})
}

// life is one run of a worker, from its start to its end or its crash.
//
// The crash is made in this process, and is an honest one. What a SIGKILL leaves of a process is what others hold: what the
// database has committed, and what the broker has. The rest, memory and open transactions, is gone. So a life has a connection
// of its own, which a crash has the server kill, in the middle of a transaction or not; the worker then ends at once, and nothing
// that it knew is used again. Nothing is rolled back or handed back by the worker itself.
type life struct {
	db         *sql.DB // one connection
	connection int64
	site       *site
}

// errCrashed ends a life.
var errCrashed = errors.New("crashed")

// live runs a worker's life. crashed says that it ended by a crash, which is no error.
func (s *site) live(ctx context.Context, work func(*life) error) (crashed bool, err error) {
	db, err := mysql.Open(s.db.DSN, mysql.Options{MaxOpen: 1})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	l := &life{db: db, site: s}
	if err := db.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&l.connection); err != nil {
		return false, fmt.Errorf("begin a life: %w", err)
	}
	err = work(l)
	if errors.Is(err, errCrashed) {
		return true, nil
	}
	return false, err
}

// liveOn runs lives, one after another, until one ends without a crash, which the last of them has to.
func (s *site) liveOn(ctx context.Context, most int, work func(life int, l *life) error) error {
	for n := range most {
		crashed, err := s.live(ctx, func(l *life) error { return work(n, l) })
		if err != nil || !crashed {
			return err
		}
	}
	return fmt.Errorf("crashed in each of %d lives", most)
}

// crash ends the life where it is. Its error is errCrashed, or says that the connection could not be killed.
func (l *life) crash(ctx context.Context) error {
	if _, err := l.site.db.ExecContext(ctx, "KILL CONNECTION ?", l.connection); err != nil {
		return fmt.Errorf("crash: %w", err)
	}
	return errCrashed
}

// exec runs one statement that commits by itself.
func (l *life) exec(ctx context.Context, query string, args ...any) error {
	if _, err := l.db.ExecContext(ctx, query, args...); err != nil {
		return fmt.Errorf("%.30s…: %w", query, err)
	}
	return nil
}
