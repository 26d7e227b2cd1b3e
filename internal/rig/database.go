package rig

import (
	"context"

	"chargeonce/internal/mysql"
)

// Database is a database of one run's own on a MySQL server.
type Database = mysql.Scratch

// NewDatabase makes an empty database, named prefix and a random part, on the server that dsn reaches.
func NewDatabase(ctx context.Context, dsn, prefix string) (*Database, error) {
	return mysql.NewScratch(ctx, dsn, prefix)
}

// FindMySQL returns the DSN of a MySQL server to work on: MYSQL_DSN of the environment, else the local one.
func FindMySQL(ctx context.Context) (string, error) { return mysql.FindServer(ctx) }
