package certs_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"chargeonce/internal/certs"
	"chargeonce/internal/certs/certstest"
)

// peer accepts connections with the store's configuration, and echoes.
func peer(t *testing.T, s *certs.Store, auth tls.ClientAuthType) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var owned sync.WaitGroup
	owned.Go(func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			cfg := s.Server()
			cfg.ClientAuth = auth
			owned.Go(func() {
				c := tls.Server(conn, cfg)
				_, err := io.Copy(c, c) // until the client leaves, or is refused
				t.Logf("connection ended: %v", errors.Join(err, c.Close()))
			})
		}
	})
	t.Cleanup(func() {
		if err := lis.Close(); err != nil {
			t.Error(err)
		}
		owned.Wait()
	})
	return lis.Addr().String()
}

// dial connects and returns the name in the peer's certificate. The connection ends with the test.
func dial(t *testing.T, addr string, cfg *tls.Config) (*tls.Conn, string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	conn, err := (&tls.Dialer{Config: cfg}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, "", err
	}
	c := conn.(*tls.Conn)
	t.Cleanup(func() { t.Logf("close: %v", c.Close()) })
	return c, c.ConnectionState().PeerCertificates[0].Subject.CommonName, echo(c)
}

func echo(c *tls.Conn) error {
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return err
	}
	if _, err := c.Write([]byte("x")); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err
}

func TestBothEndsShowAndCheckCertificates(t *testing.T) {
	t.Parallel()
	ca, other := certstest.NewCA(t, "ours"), certstest.NewCA(t, "another")
	addr := peer(t, certstest.Open(t, ca.Issue("server")), tls.RequireAndVerifyClientCert)
	stranger := other.Issue("client")
	stranger.CA = ca.File
	for _, tt := range []struct {
		name  string
		files certs.Files
		good  bool
	}{
		{"both of one CA", ca.Issue("client"), true},
		{"no client certificate", certs.Files{CA: ca.File}, false},
		{"a client of another CA", stranger, false},
		{"a server of another CA", certs.Files{CA: other.File}, false},
		{"the system's roots", certs.Files{}, false},
	} {
		_, name, err := dial(t, addr, certstest.Open(t, tt.files).Client("localhost"))
		if (err == nil) != tt.good || tt.good && name != "server" {
			t.Errorf("%s: %q, %v", tt.name, name, err)
		}
	}
	if _, _, err := dial(t, addr, certstest.Open(t, ca.Issue("client")).Client("elsewhere.example")); err == nil {
		t.Error("a certificate for another name was taken")
	}
}

func TestTLS11IsRefused(t *testing.T) {
	t.Parallel()
	ca := certstest.NewCA(t, "ours")
	store := certstest.Open(t, ca.Issue("server"))
	cfg := store.Client("localhost")
	cfg.MinVersion, cfg.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	if _, _, err := dial(t, peer(t, store, tls.NoClientCert), cfg); err == nil {
		t.Error("TLS 1.1 was spoken")
	}
	cfg.MaxVersion = tls.VersionTLS12
	if _, _, err := dial(t, peer(t, store, tls.NoClientCert), cfg); err != nil {
		t.Errorf("TLS 1.2: %v", err)
	}
}

// What is renewed is used by the next connection, and the one that stands goes on.
func TestARenewedCertificateIsUsedAndNoConnectionDropped(t *testing.T) {
	t.Parallel()
	ca := certstest.NewCA(t, "ours")
	files := ca.Issue("old")
	addr := peer(t, certstest.Open(t, files), tls.NoClientCert)
	client := certstest.Open(t, certs.Files{CA: ca.File})
	standing, name, err := dial(t, addr, client.Client("localhost"))
	if err != nil || name != "old" {
		t.Fatalf("%q, %v", name, err)
	}
	ca.Renew(files, "new", time.Hour)
	deadline := time.Now().Add(30 * time.Second)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for ; name != "new"; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("the new certificate was not used in time")
		}
		if _, name, err = dial(t, addr, client.Client("localhost")); err != nil {
			t.Fatal(err)
		}
	}
	if err := echo(standing); err != nil {
		t.Errorf("the connection from before: %v", err)
	}
}

// The clock is the bubble's, so every look is forced by passing the interval.
func TestABrokenFileIsToldOnceAndTheOldCertificateStays(t *testing.T) {
	t.Parallel()
	ca := certstest.NewCA(t, "ours")
	files := ca.Issue("old")
	stranger := ca.Issue("stranger")
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s, err := certs.Open(files, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		look := func() string {
			<-time.After(time.Minute)
			return s.Certificates()[0].Subject.CommonName
		}
		replace := func(path, from string) {
			text, err := os.ReadFile(from)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		replace(files.Key, stranger.Key) // as in the middle of a renewal: the key is there, the certificate is not yet
		for range 3 {
			if got := look(); got != "old" {
				t.Errorf("with another's key: %s", got)
			}
		}
		if n := strings.Count(log.String(), "could not be read again"); n != 1 {
			t.Errorf("the fault was logged %d times, want once:\n%s", n, &log)
		}
		replace(files.Cert, stranger.Cert)
		if got := look(); got != "stranger" || !strings.Contains(log.String(), "certificates renewed") {
			t.Errorf("whole again: %s\n%s", got, &log)
		}
		if err := os.Remove(files.Cert); err != nil {
			t.Fatal(err)
		}
		if got := look(); got != "stranger" || strings.Count(log.String(), "could not be read again") != 2 {
			t.Errorf("gone: %s\n%s", got, &log)
		}
	})
}

func TestOpenNamesTheFileAtFault(t *testing.T) {
	t.Parallel()
	ca := certstest.NewCA(t, "ours")
	good, other := ca.Issue("a"), ca.Issue("b")
	for _, tt := range []struct {
		name  string
		files certs.Files
		want  string
	}{
		{"no key", certs.Files{Cert: good.Cert}, "go together"},
		{"no certificate", certs.Files{Key: good.Key}, "go together"},
		{"another's key", certs.Files{Cert: good.Cert, Key: other.Key}, other.Key},
		{"not there", certs.Files{CA: good.CA + ".none"}, good.CA + ".none"},
		{"a CA file without a certificate", certs.Files{CA: good.Key}, "holds no certificate"},
	} {
		if _, err := certs.Open(tt.files, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	if s, err := certs.Open(certs.Files{}, slog.New(slog.DiscardHandler)); err != nil || s.Server().ClientCAs != nil || s.Client("x").RootCAs != nil {
		t.Errorf("no files: %v", err)
	}
}
