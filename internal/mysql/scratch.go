package mysql

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/go-sql-driver/mysql"
)

// findPatience bounds asking the local MySQL's script.
const findPatience = 10 * time.Second

// FindServer returns the DSN of a MySQL server to work on: MYSQL_DSN of the environment, else what `deploy/mysql/local dsn`
// says, the script being looked for in the working folder and those above it.
func FindServer(ctx context.Context) (string, error) {
	if dsn := os.Getenv("MYSQL_DSN"); dsn != "" {
		return dsn, nil
	}
	script, err := FindScript()
	if err != nil {
		return "", fmt.Errorf("no MySQL: MYSQL_DSN is not set: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, findPatience)
	defer cancel()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, script, "dsn")
	cmd.Stderr, cmd.WaitDelay = &stderr, time.Second
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("mysql: no MySQL: MYSQL_DSN is not set, and %s dsn says: %s (%w); run %s up",
			script, bytes.TrimSpace(stderr.Bytes()), err, script)
	}
	return string(bytes.TrimSpace(out)), nil
}

// FindScript looks for the script that starts the local MySQL, deploy/mysql/local, in the working folder and those above it.
func FindScript() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("mysql: %w", err)
	}
	for start := dir; ; {
		script := filepath.Join(dir, "deploy", "mysql", "local")
		if _, err := os.Stat(script); err == nil {
			return script, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("mysql: there is no deploy/mysql/local in %s or above it", start)
		}
		dir = parent
	}
}

// Scratch is a database of one run's own on a MySQL server.
type Scratch struct {
	*sql.DB
	// Name is its name, DSN reaches it.
	Name, DSN string

	server string
}

// NewScratch makes an empty database, named prefix and a random part, on the server that dsn reaches.
func NewScratch(ctx context.Context, dsn, prefix string) (*Scratch, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf("mysql: the DSN does not parse: %w", err)
	}
	var id [6]byte
	rand.Read(id[:]) // never fails (crypto/rand)
	d := &Scratch{Name: prefix + hex.EncodeToString(id[:]), server: dsn}
	if err := d.admin(ctx, "CREATE DATABASE "); err != nil {
		return nil, err
	}
	cfg.DBName = d.Name
	d.DSN = cfg.FormatDSN()
	if d.DB, err = Open(d.DSN, Options{MaxOpen: 4}); err != nil {
		return nil, errors.Join(err, d.admin(ctx, "DROP DATABASE "))
	}
	return d, nil
}

// Drop closes the database and deletes it.
func (d *Scratch) Drop(ctx context.Context) error {
	return errors.Join(d.Close(), d.admin(ctx, "DROP DATABASE IF EXISTS "))
}

// admin runs a statement that ends in the database's name, which is of letters, digits and underscores.
func (d *Scratch) admin(ctx context.Context, statement string) (err error) {
	db, err := Open(d.server, Options{MaxOpen: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := db.ExecContext(ctx, statement+d.Name); err != nil {
		return fmt.Errorf("mysql: %s%s: %w", statement, d.Name, err)
	}
	return nil
}
