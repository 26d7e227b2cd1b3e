package mysql_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"database/sql"
	"log/slog"
	"strings"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"chargeonce/internal/certs"
	"chargeonce/internal/certs/certstest"
	"chargeonce/internal/mysql"
)

func open(t *testing.T, dsn string, o mysql.Options) *sql.DB {
	t.Helper()
	db, err := mysql.Open(dsn, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func TestTheServersCertificateIsCheckedAndOursShown(t *testing.T) {
	t.Parallel()
	ca, other := certstest.NewCA(t, "ours"), certstest.NewCA(t, "another")
	server := certstest.Open(t, ca.Issue("server"))
	proxy := mysql.NewTLSProxy(t, mysql.NewEmptyTestDB(t), func() *tls.Config {
		cfg := server.Server()
		cfg.ClientAuth = tls.RequireAndVerifyClientCert
		return cfg
	})
	for _, tt := range []struct {
		name  string
		files certs.Files
		as    string
		good  bool
	}{
		{"both of one CA", ca.Issue("client"), "", true},
		{"by another name in it", ca.Issue("client"), "localhost", true},
		{"a name that is not in it", ca.Issue("client"), "db.example", false},
		{"no client certificate", certs.Files{CA: ca.File}, "", false},
		{"a server of another CA", other.Issue("client"), "", false},
	} {
		store := certstest.Open(t, tt.files)
		db := open(t, proxy.DSN, mysql.Options{TLS: func(host string) *tls.Config {
			if tt.as != "" {
				host = tt.as
			}
			return store.Client(host)
		}})
		var name, cipher string
		err := db.QueryRowContext(testCtx(t), `SHOW SESSION STATUS LIKE 'Ssl_cipher'`).Scan(&name, &cipher)
		if (err == nil) != tt.good || tt.good && cipher == "" {
			t.Errorf("%s: cipher %q, %v", tt.name, cipher, err)
		}
	}
}

// A renewed certificate is what the next connection meets, and the one that stands goes on.
func TestTheCertificatesOfTheMomentAreUsed(t *testing.T) {
	t.Parallel()
	old, renewed := certstest.NewCA(t, "old"), certstest.NewCA(t, "new")
	server, client := certstest.Open(t, old.Issue("server")), certstest.Open(t, certs.Files{CA: old.File})
	proxy := mysql.NewTLSProxy(t, mysql.NewEmptyTestDB(t), func() *tls.Config { return server.Server() })
	db := open(t, proxy.DSN, mysql.Options{TLS: func(host string) *tls.Config { return client.Client(host) }})
	standing, err := db.Conn(testCtx(t))
	if err != nil {
		t.Fatal(err)
	}
	server = certstest.Open(t, renewed.Issue("server"))
	if err := db.PingContext(testCtx(t)); err == nil {
		t.Error("a server of the new CA was believed by the old one")
	}
	client = certstest.Open(t, certs.Files{CA: renewed.File})
	if err := db.PingContext(testCtx(t)); err != nil {
		t.Errorf("both renewed: %v", err)
	}
	if err := standing.PingContext(testCtx(t)); err != nil {
		t.Errorf("the connection from before: %v", err)
	}
	if err := standing.Close(); err != nil {
		t.Error(err)
	}
}

func TestTLSIsNotWeakenedByTheDSNNorByAnUnknownCA(t *testing.T) {
	t.Parallel()
	dsn := mysql.NewEmptyTestDB(t)
	store := certstest.Open(t, certs.Files{CA: certstest.NewCA(t, "ours").File})
	if _, err := mysql.Open(dsn+"?tls=skip-verify", mysql.Options{TLS: store.Client}); err == nil || !strings.Contains(err.Error(), "leave one of them out") {
		t.Errorf("the DSN says otherwise: %v", err)
	}
	if _, err := mysql.Open(dsn+"?allowFallbackToPlaintext=true", mysql.Options{TLS: store.Client}); err == nil || !strings.Contains(err.Error(), "plaintext") {
		t.Errorf("the DSN allows to do without: %v", err)
	}
	// The real server's certificate is of a CA of its own making.
	if err := open(t, dsn, mysql.Options{TLS: store.Client}).PingContext(testCtx(t)); err == nil {
		t.Error("a certificate that nobody vouches for was taken")
	}
}

// A pool whose connections were cut opens new ones by itself.
func TestALostConnectionHealsByItself(t *testing.T) {
	t.Parallel()
	proxy := mysql.NewFaultProxy(t, mysql.NewEmptyTestDB(t))
	db := open(t, proxy.DSN, mysql.Options{})
	if err := db.PingContext(testCtx(t)); err != nil {
		t.Fatal(err)
	}
	proxy.Cut()
	if err := db.PingContext(testCtx(t)); !mysql.Unavailable(err) {
		t.Errorf("cut: %v", err)
	}
	proxy.Mend()
	if err := db.PingContext(testCtx(t)); err != nil {
		t.Errorf("mended: %v", err)
	}
}

func TestWaitGoesOnUntilTheDatabaseComes(t *testing.T) {
	t.Parallel()
	proxy := mysql.NewFaultProxy(t, mysql.NewEmptyTestDB(t))
	proxy.Cut()
	tried := make(chan struct{}, 1000)
	cfg, err := mysql.Config(proxy.DSN, mysql.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := cfg.Apply(driver.BeforeConnect(func(context.Context, *driver.Config) error {
		tried <- struct{}{}
		return nil
	})); err != nil {
		t.Fatal(err)
	}
	db, err := mysql.OpenConfig(cfg, mysql.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	came := make(chan error, 1)
	go func() { came <- mysql.Wait(testCtx(t), db, slog.New(slog.NewTextHandler(&log, nil))) }()
	for range 3 {
		select {
		case <-tried:
		case err := <-came:
			t.Fatalf("it gave up: %v", err)
		}
	}
	proxy.Mend()
	select {
	case err := <-came:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it still waits")
	}
	if got := log.String(); strings.Count(got, "waiting for the database") != 1 || !strings.Contains(got, "the database answers") {
		t.Errorf("log:\n%s", got)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
