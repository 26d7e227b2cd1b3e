// Package mysql opens the database by this service's rules, runs transactions, and says what an error leaves known.
package mysql

import (
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Options bound a pool. The zero value takes the defaults.
type Options struct {
	// MaxOpen is the most connections at once (default 32).
	MaxOpen int
	// DialTimeout bounds connecting, IOTimeout one read or write on the wire (defaults 3 s and 15 s). Statements have
	// contexts of their own, which are shorter; IOTimeout is what ends a connection whose peer is gone.
	DialTimeout, IOTimeout time.Duration
	// TLS gives the configuration of each new connection to a server of that name, in place of what the DSN's tls says; nil
	// leaves it to the DSN. It is asked each time, so that a renewed certificate is used without a restart.
	TLS func(serverName string) *tls.Config
}

// session is set on every connection; a DSN that asks for something else is refused.
//
//   - READ-COMMITTED: a duplicate insert locks one record and no gap.
//   - strict mode: a value that does not fit is an error, never cut.
//   - time_zone: DATETIME columns hold UTC.
//   - autocommit: a claim commits by itself, whatever the server's default is.
//   - wait_timeout: a process that freezes in the middle of a transaction keeps its row locks until its connection ends, and so
//     would keep everybody from the key for eight hours. After a minute of silence the server ends the connection and rolls back.
//   - a lock is waited for 2 s, not 50: the contexts here are of seconds, and error 1205 leaves a connection that can be
//     used again while an expired context does not.
var session = map[string]string{
	"transaction_isolation":    "'READ-COMMITTED'",
	"sql_mode":                 "'STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'",
	"time_zone":                "'+00:00'",
	"autocommit":               "1",
	"wait_timeout":             "60",
	"innodb_lock_wait_timeout": "2",
}

// ErrDSN: the DSN is no DSN.
var ErrDSN = errors.New("mysql: the DSN does not parse (expected user:password@tcp(host:port)/database)")

// Config reads a DSN of github.com/go-sql-driver/mysql and completes it by the rules above. It refuses a DSN without a
// database, one that sets a session variable of ours to another value, and multiStatements (one more way to inject).
func Config(dsn string, o Options) (*mysql.Config, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil { // whose text may hold a part of the password, and is not shown
		return nil, ErrDSN
	}
	if cfg.DBName == "" {
		return nil, errors.New("mysql: the DSN names no database (expected user:password@tcp(host:port)/database)")
	}
	if cfg.MultiStatements {
		return nil, errors.New("mysql: multiStatements is not allowed in the DSN")
	}
	if cfg.Params == nil {
		cfg.Params = map[string]string{}
	}
	for _, name := range slices.Sorted(maps.Keys(session)) {
		if got, ok := cfg.Params[name]; ok && got != session[name] {
			return nil, fmt.Errorf("mysql: the DSN sets %s to %s; this service needs %s (leave it out)", name, got, session[name])
		}
		cfg.Params[name] = session[name]
	}
	cfg.ParseTime = true
	cfg.Loc = time.UTC
	cfg.ClientFoundRows = true   // a compare-and-set that changes no bytes must still count its row
	cfg.InterpolateParams = true // one round trip a statement; safe in utf8mb4
	cfg.RejectReadOnly = true    // after a failover, leave a connection to what is a replica now
	cfg.CheckConnLiveness = true
	if cfg.Timeout == 0 {
		cfg.Timeout = or(o.DialTimeout, 3*time.Second)
	}
	if cfg.ReadTimeout == 0 {
		cfg.ReadTimeout = or(o.IOTimeout, 15*time.Second)
	}
	if cfg.WriteTimeout == 0 {
		cfg.WriteTimeout = or(o.IOTimeout, 15*time.Second)
	}
	cfg.Logger = &mysql.NopLogger{} // what it would print comes back as an error too
	if o.TLS != nil {
		if err := encrypt(cfg, o.TLS); err != nil {
			return nil, err
		}
	}
	return cfg, nil
}

// Open makes a pool and connects to nothing yet; see [Wait].
func Open(dsn string, o Options) (*sql.DB, error) {
	cfg, err := Config(dsn, o)
	if err != nil {
		return nil, err
	}
	return OpenConfig(cfg, o)
}

// OpenConfig is [Open] for a configuration that the caller has changed further (a TLS configuration, a dialer).
func OpenConfig(cfg *mysql.Config, o Options) (*sql.DB, error) {
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("mysql: %w", err)
	}
	db := sql.OpenDB(connector)
	n := or(o.MaxOpen, 32)
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)                   // a connection costs a TCP and a login round trip: keep what the load opened
	db.SetConnMaxIdleTime(40 * time.Second) // before the server's wait_timeout ends it
	// Renewed now and then so that a moved server is found; at a random age, so that pools do not reconnect in step.
	db.SetConnMaxLifetime(5*time.Minute + rand.N(time.Minute))
	return db, nil
}

func or[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}
