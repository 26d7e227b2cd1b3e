package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"chargeonce/internal/rig"
)

// users is how many users buy. Their ids are 1 to users.
const users = 16

// closeBound bounds the removing of a site and the end of a process.
const closeBound = 30 * time.Second

// site is where a run measures: a database of its own, in which every measurement starts from empty tables unless it is about full
// ones, and the API keys of its users. PSP and server are started anew for each form.
type site struct {
	o     Options
	dir   string
	db    *rig.Database
	keys  []string // the users' API keys
	mysql MySQL
	cells int
}

// MySQL is what the database was that everything ran on.
type MySQL struct {
	Version         string `json:"version"`
	BufferPoolBytes int64  `json:"buffer_pool_bytes"`
	// RedoLogBytes is 0 where the server does not tell (before 8.0.30).
	RedoLogBytes   int64  `json:"redo_log_bytes"`
	FlushAtCommit  int    `json:"innodb_flush_log_at_trx_commit"`
	Doublewrite    string `json:"innodb_doublewrite"`
	BinaryLog      bool   `json:"binary_log"`
	SyncBinaryLog  int    `json:"sync_binlog"`
	MaxConnections int    `json:"max_connections"`
	pid            int    // 0: not a process of this machine
}

var (
	errNotDurable     = errors.New("this MySQL is not durable (innodb_flush_log_at_trx_commit is not 1, or a binary log is written with sync_binlog other than 1, or doublewrite is off)")
	errFewConnections = errors.New("this MySQL allows too few connections")
)

func newSite(ctx context.Context, o Options) (s *site, err error) {
	s = &site{o: o}
	if s.o.DSN == "" {
		if s.o.DSN, err = rig.FindMySQL(ctx); err != nil {
			return nil, err
		}
	}
	if s.dir, err = os.MkdirTemp("", "chargeonce-bench-"); err != nil {
		return nil, fmt.Errorf("site: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close(context.WithoutCancel(ctx), false))
		}
	}()
	if s.db, err = rig.NewDatabase(ctx, s.o.DSN, "chargeonce_bench_"); err != nil {
		return s, err
	}
	if s.mysql, err = askMySQL(ctx, s.db.DB); err != nil {
		return s, err
	}
	if need := max(o.Plan.mostInFlight(), mostPool) + spareConnections; s.mysql.MaxConnections < need {
		return s, fmt.Errorf("%w: max_connections is %d, and %d are needed", errFewConnections, s.mysql.MaxConnections, need)
	}
	r, err := s.rig("setup")
	if err != nil {
		return s, err
	}
	if err := r.Migrate(ctx); err != nil {
		return s, err
	}
	for user := range users {
		key, err := r.APIKey(ctx, int64(user+1))
		if err != nil {
			return s, err
		}
		s.keys = append(s.keys, key)
	}
	return s, nil
}

// rig makes a rig with a folder of its own.
func (s *site) rig(name string) (*rig.Rig, error) {
	dir := filepath.Join(s.dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("site: %w", err)
	}
	return rig.New(rig.Config{ChargeOnce: s.o.ChargeOnce, GatewaySim: s.o.GatewaySim, DSN: s.db.DSN, Dir: dir})
}

// close removes the site; the logs stay when something was wrong.
func (s *site) close(ctx context.Context, keepLogs bool) error {
	ctx, cancel := context.WithTimeout(ctx, closeBound)
	defer cancel()
	var errs []error
	if s.db != nil {
		errs = append(errs, s.db.Drop(ctx))
	}
	if !keepLogs {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}

// askMySQL asks the server what it is. One that may lose what it has committed is refused: it would be measured faster than a
// payment service's database can be.
func askMySQL(ctx context.Context, db *sql.DB) (MySQL, error) {
	var m MySQL
	var pidFile string
	err := db.QueryRowContext(ctx, `SELECT VERSION(), @@innodb_buffer_pool_size, @@innodb_flush_log_at_trx_commit, @@innodb_doublewrite,
		@@log_bin, @@sync_binlog, @@max_connections, @@pid_file`).Scan(&m.Version, &m.BufferPoolBytes, &m.FlushAtCommit,
		&m.Doublewrite, &m.BinaryLog, &m.SyncBinaryLog, &m.MaxConnections, &pidFile)
	if err != nil {
		return m, fmt.Errorf("what MySQL is this? %w", err)
	}
	var name string
	err = db.QueryRowContext(ctx, `SHOW GLOBAL VARIABLES LIKE 'innodb_redo_log_capacity'`).Scan(&name, &m.RedoLogBytes)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return m, fmt.Errorf("what MySQL is this? %w", err)
	}
	if m.FlushAtCommit != 1 || m.BinaryLog && m.SyncBinaryLog != 1 || m.Doublewrite != "ON" && m.Doublewrite != "1" {
		return m, errNotDurable
	}
	m.pid = pidOf(pidFile)
	return m, nil
}

// pidOf reads a pid file; 0 when it can't be read, since the server runs elsewhere, or not as a process of ours.
func pidOf(file string) int {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return pid
}

// empty empties the tables that payments are in.
func (s *site) empty(ctx context.Context) error {
	for _, table := range []string{"idempotency_keys", "payments", "webhook_events"} {
		if _, err := s.db.ExecContext(ctx, "TRUNCATE TABLE "+table); err != nil {
			return fmt.Errorf("empty %s: %w", table, err)
		}
	}
	return nil
}

// rows is how many there are of what a payment leaves in the database.
type rows struct{ done, payments, events int64 }

func (r rows) since(before rows) rows {
	return rows{r.done - before.done, r.payments - before.payments, r.events - before.events}
}

func (s *site) rows(ctx context.Context) (r rows, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT (SELECT COUNT(*) FROM idempotency_keys WHERE status = 'done'),
		(SELECT COUNT(*) FROM payments), (SELECT COUNT(*) FROM webhook_events)`).Scan(&r.done, &r.payments, &r.events)
	if err != nil {
		return r, fmt.Errorf("count the rows: %w", err)
	}
	return r, nil
}

// ErrWrong: the books do not agree.
var ErrWrong = errors.New("what clients were told, what the tables hold and what the PSP charged do not agree")

// agree demands that each purchase that a client was told is paid is one payment row, one key that is done and one charge at the
// PSP, and that there are no others. A row has a charge id, which is unique, and an answer names its own order's payment: so equal
// numbers mean the same purchases.
func agree(told int64, r rows, charges int64) error {
	if told != r.payments || told != r.done || told != charges {
		return fmt.Errorf("%w: told paid: %d, payment rows: %d, keys done: %d, charges at the PSP: %d", ErrWrong, told, r.payments, r.done, charges)
	}
	return nil
}
