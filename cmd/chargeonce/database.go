package main

import (
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	driver "github.com/go-sql-driver/mysql"
	"go.opentelemetry.io/otel"

	"chargeonce/internal/certs"
	"chargeonce/internal/mysql"
	"chargeonce/internal/telemetry"
)

// mysqlFlags say where the database is and how it is reached.
type mysqlFlags struct {
	DSN          telemetry.Secret `name:"dsn" env:"CHARGEONCE_MYSQL_DSN,MYSQL_DSN" placeholder:"user:password@tcp(host:port)/database" help:"The database."`
	DSNFile      string           `name:"dsn-file" placeholder:"FILE" help:"File that holds it."`
	PasswordFile string           `placeholder:"FILE" help:"File that holds the password alone; the DSN then has none."`
	Wait         time.Duration    `default:"60s" help:"How long to wait at the start for a database that can't be reached yet."`

	TLSCA         string `name:"tls-ca" placeholder:"FILE" help:"PEM file of the CAs that the database's certificate is checked against; turns TLS on. A changed file is read again."`
	TLSCert       string `name:"tls-cert" placeholder:"FILE" help:"PEM file of a client certificate for the database."`
	TLSKey        string `name:"tls-key" placeholder:"FILE" help:"PEM file of the client certificate's key."`
	TLSServerName string `name:"tls-server-name" placeholder:"NAME" help:"The name in the database's certificate. Default: the DSN's host."`
}

func (f mysqlFlags) certFiles() certs.Files {
	return certs.Files{CA: f.TLSCA, Cert: f.TLSCert, Key: f.TLSKey}
}

// dsn returns the DSN with its password.
func (f mysqlFlags) dsn() (telemetry.Secret, error) {
	dsn, err := secret("mysql-dsn", f.DSN, f.DSNFile)
	if err != nil {
		return "", err
	}
	if dsn == "" {
		return "", errors.New("no database: set --mysql-dsn, CHARGEONCE_MYSQL_DSN or MYSQL_DSN, or --mysql-dsn-file")
	}
	if f.PasswordFile == "" {
		return dsn, nil
	}
	password, err := secret("mysql-password", "", f.PasswordFile)
	if err != nil {
		return "", err
	}
	cfg, err := driver.ParseDSN(dsn.Reveal())
	switch {
	case err != nil:
		return "", fmt.Errorf("--mysql-dsn: %w", mysql.ErrDSN) // the driver's own text may hold a part of the password
	case cfg.Passwd != "":
		return "", errors.New("--mysql-dsn names a password, and --mysql-password-file is set")
	}
	cfg.Passwd = password.Reveal()
	return telemetry.Secret(cfg.FormatDSN()), nil
}

// config returns what package mysql opens the database by. o.TLS is set when the flags name certificates.
func (f mysqlFlags) config(o mysql.Options, log *slog.Logger) (*driver.Config, error) {
	dsn, err := f.dsn()
	if err != nil {
		return nil, err
	}
	store, err := openCerts("--mysql-tls-", f.certFiles(), log)
	if err != nil {
		return nil, err
	}
	if store == nil && f.TLSServerName != "" {
		return nil, errors.New("--mysql-tls-server-name is set, and no certificate file is: TLS is not on")
	}
	if store != nil {
		o.TLS = func(host string) *tls.Config {
			if f.TLSServerName != "" {
				host = f.TLSServerName
			}
			return store.Client(host)
		}
	}
	cfg, err := mysql.Config(dsn.Reveal(), o)
	if err == nil {
		demoPassword.warn(log, telemetry.Secret(cfg.Passwd))
	}
	return cfg, err
}

// open opens the database and waits until it answers.
func (f mysqlFlags) open(ctx context.Context, log *slog.Logger, o mysql.Options) (*sql.DB, error) {
	cfg, err := f.config(o, log)
	if err != nil {
		return nil, err
	}
	db, err := mysql.OpenConfig(cfg, o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, f.Wait)
	defer cancel()
	if err := mysql.Wait(ctx, db, log); err != nil {
		return nil, errors.Join(fmt.Errorf("database: %w", err), db.Close())
	}
	if _, err := mysql.Observe(otel.Meter("chargeonce/mysql"), db, cfg.DBName); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// withDB runs do with the database open.
func (g *globals) withDB(ctx context.Context, log *slog.Logger, do func(*sql.DB) error) error {
	db, err := g.MySQL.open(ctx, log, mysql.Options{MaxOpen: 4})
	if err != nil {
		return err
	}
	return errors.Join(do(db), db.Close())
}
