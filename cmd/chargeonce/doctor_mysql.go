package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"chargeonce/internal/mysql"
	"chargeonce/internal/telemetry"
	"chargeonce/migrations"
)

// How far a clock may be off. Leases are timed by the database alone, so a difference breaks no promise at once; but the
// statement's marks and the tolerance of webhooks are minutes, and logs of machines that disagree can't be read together.
const (
	clockDoubt = 3 * time.Second
	clockFault = time.Minute
)

// testedOn are the series that the tests run on.
var testedOn = map[string]bool{"8.0": true, "8.4": true, "9.7": true}

// database checks the DSN and, if it leads to a server, that.
func (d *doctor) database(ctx context.Context) {
	var cfg *driver.Config
	dsn := d.check(ctx, "mysql dsn", func(context.Context) (f finding) {
		cfg, f = d.dsn()
		return f
	})
	rest := []string{"mysql session", "mysql writable", "mysql durability", "mysql tls", "mysql clock", "schema"}
	if dsn.Status == fail {
		d.unchecked("no usable DSN", append([]string{"mysql server"}, rest...)...)
		return
	}
	db, err := mysql.OpenConfig(cfg, mysql.Options{MaxOpen: 1})
	if err != nil {
		d.check(ctx, "mysql server", func(context.Context) finding { return fault("mend the DSN", "%v", err) })
		d.unchecked("no usable DSN", rest...)
		return
	}
	server := d.check(ctx, "mysql server", func(ctx context.Context) finding { return serverOf(ctx, db, cfg.Addr) })
	if server.Status == fail {
		d.unchecked("no usable server", rest...)
	} else {
		d.check(ctx, "mysql session", func(ctx context.Context) finding { return sessionOf(ctx, db) })
		d.check(ctx, "mysql writable", func(ctx context.Context) finding { return writable(ctx, db) })
		d.check(ctx, "mysql durability", func(ctx context.Context) finding { return durabilityOf(ctx, db) })
		d.check(ctx, "mysql tls", func(ctx context.Context) finding { return encryption(ctx, db, cfg) })
		d.check(ctx, "mysql clock", func(ctx context.Context) finding { return d.mysqlClock(ctx, db) })
		d.check(ctx, "schema", func(ctx context.Context) finding { return schemaOf(ctx, db) })
	}
	if err := db.Close(); err != nil {
		d.check(ctx, "mysql close", func(context.Context) finding { return doubt("see the server's log", "%v", err) })
	}
}

func (d *doctor) dsn() (*driver.Config, finding) {
	cfg, err := d.mysql.config(mysql.Options{}, quiet)
	if err != nil {
		return nil, fault("set CHARGEONCE_MYSQL_DSN or --mysql-dsn-file to user:password@tcp(host:port)/database, and leave the session variables out", "%v", err)
	}
	where := fmt.Sprintf("%s at %s", cfg.DBName, cfg.Addr)
	if demoPassword.is(telemetry.Secret(cfg.Passwd)) {
		return cfg, doubt("give the user a password of your own", "%s, with the demo's password, which everybody knows", where)
	}
	return cfg, fine("%s", where)
}

func serverOf(ctx context.Context, db *sql.DB, addr string) finding {
	var version string
	if err := db.QueryRowContext(ctx, `SELECT VERSION()`).Scan(&version); err != nil {
		fix := "see that MySQL runs at " + addr + " and can be reached from here"
		var told *driver.MySQLError
		if errors.As(err, &told) {
			fix = "MySQL runs there and refuses: mend the user, the password or the database's name"
		}
		return fault(fix, "%v", err)
	}
	return judgeVersion(version)
}

func judgeVersion(version string) finding {
	parts := strings.SplitN(version, ".", 3)
	var major int
	if _, err := fmt.Sscanf(version, "%d.", &major); err != nil || len(parts) < 2 {
		return fault("use MySQL 8.4 LTS or 9.7 LTS", "a server of unknown version %q", version)
	}
	switch {
	case strings.Contains(version, "MariaDB"):
		return fault("use MySQL: MariaDB locks otherwise than the claims rely on", "%s", version)
	case major < 8:
		return fault("use MySQL 8.0 at the least; 8.4 LTS or 9.7 LTS", "MySQL %s", version)
	case !testedOn[parts[0]+"."+parts[1]]:
		return doubt("use 8.4 LTS or 9.7 LTS, which the tests run on", "MySQL %s", version)
	}
	return fine("MySQL %s", version)
}

// sessionOf checks what a connection of ours has. The service sets it by itself; what stands between may undo it.
func sessionOf(ctx context.Context, db *sql.DB) finding {
	const fix = "see what between here and MySQL drops session variables (a proxy's multiplexing), and turn that off"
	var isolation, mode, zone string
	if err := db.QueryRowContext(ctx, `SELECT @@transaction_isolation, @@sql_mode, @@time_zone`).Scan(&isolation, &mode, &zone); err != nil {
		return fault(fix, "%v", err)
	}
	var wrong []string
	if isolation != "READ-COMMITTED" {
		wrong = append(wrong, "the isolation is "+isolation+", not READ-COMMITTED")
	}
	if !strings.Contains(mode, "STRICT_ALL_TABLES") {
		wrong = append(wrong, "strict mode is off: values that do not fit are cut")
	}
	if zone != "+00:00" {
		wrong = append(wrong, "the time zone is "+zone+", not +00:00")
	}
	if len(wrong) > 0 {
		return fault(fix, "%s", strings.Join(wrong, "; "))
	}
	return fine("%s, strict, UTC", isolation)
}

func writable(ctx context.Context, db *sql.DB) finding {
	const fix = "point the DSN at the primary"
	var readOnly bool
	if err := db.QueryRowContext(ctx, `SELECT @@read_only OR @@super_read_only`).Scan(&readOnly); err != nil {
		return fault(fix, "%v", err)
	}
	return judgeWritable(readOnly)
}

func judgeWritable(readOnly bool) finding {
	if readOnly {
		return fault("point the DSN at the primary", "the server is read-only: a replica, or an operator's switch")
	}
	return fine("yes")
}

// durability is what decides whether a commit that was answered survives a power cut.
type durability struct {
	flush, sync int
	binlog      bool
}

func durabilityOf(ctx context.Context, db *sql.DB) finding {
	var s durability
	err := db.QueryRowContext(ctx, `SELECT @@innodb_flush_log_at_trx_commit, @@sync_binlog, @@log_bin`).Scan(&s.flush, &s.sync, &s.binlog)
	if err != nil {
		return doubt("grant the user nothing more; ask the server's administrator for these settings", "%v", err)
	}
	return s.judge()
}

func (s durability) judge() finding {
	if s.flush != 1 {
		return doubt("set innodb_flush_log_at_trx_commit = 1", "innodb_flush_log_at_trx_commit = %d: a crash of the machine can lose a claim, and its key then charges anew", s.flush)
	}
	if s.binlog && s.sync != 1 {
		return doubt("set sync_binlog = 1", "sync_binlog = %d: a crash of the machine can lose commits for the replicas and for recovery", s.sync)
	}
	if !s.binlog {
		return fine("every commit is flushed; there is no binary log, so no replica and no point-in-time recovery")
	}
	return fine("every commit is flushed, in the redo and the binary log")
}

func encryption(ctx context.Context, db *sql.DB, cfg *driver.Config) finding {
	const fix = "set --mysql-tls-ca (and --mysql-tls-server-name, if the host is not in the certificate)"
	var name, version string
	if err := db.QueryRowContext(ctx, `SHOW SESSION STATUS LIKE 'Ssl_version'`).Scan(&name, &version); err != nil {
		return doubt(fix, "%v", err)
	}
	host, _, err := net.SplitHostPort(cfg.Addr)
	local := cfg.Net == "unix" || err == nil && isLoopback(host)
	switch {
	case version == "" && local:
		return fine("in clear, within this machine")
	case version == "":
		return doubt(fix, "in clear: the network can read and change every statement")
	case cfg.TLSConfig == "skip-verify" || cfg.TLSConfig == "preferred":
		return doubt(fix, "%s, but the DSN's tls=%s believes any server", version, cfg.TLSConfig)
	}
	return fine("%s", version)
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (d *doctor) mysqlClock(ctx context.Context, db *sql.DB) finding {
	var theirs time.Time
	before := d.now()
	if err := db.QueryRowContext(ctx, `SELECT UTC_TIMESTAMP(6)`).Scan(&theirs); err != nil {
		return fault("see that the server answers", "%v", err)
	}
	after := d.now()
	return judgeClock("MySQL", theirs.Sub(before.Add(after.Sub(before)/2)), after.Sub(before)/2)
}

// judgeClock judges their time minus ours, known to within so much.
func judgeClock(whose string, ahead, within time.Duration) finding {
	const fix = "synchronise both machines' clocks (NTP)"
	off := max(0, ahead.Abs()-within)
	told := fmt.Sprintf("%s's clock and this machine's are %s apart", whose, off.Round(10*time.Millisecond))
	switch {
	case off > clockFault:
		return fault(fix, "%s", told)
	case off > clockDoubt:
		return doubt(fix, "%s", told)
	}
	return fine("%s", told)
}

func schemaOf(ctx context.Context, db *sql.DB) finding {
	state, err := migrations.Check(ctx, db)
	var outdated *migrations.OutdatedError
	switch {
	case errors.As(err, &outdated) && outdated.Dirty:
		return fault("repair it as it says", "%v", err)
	case errors.As(err, &outdated):
		return fault("run `chargeonce migrate up`", "the schema is at version %d and this build needs %d", outdated.Version, outdated.Need)
	case err != nil:
		return fault("see that the user may read the database", "%v", err)
	case state.Version > migrations.Latest():
		return doubt("bring this build up to date, once the deploy or rollback under way has ended", "version %d is newer than this build's %d", state.Version, migrations.Latest())
	}
	return fine("version %d", state.Version)
}
