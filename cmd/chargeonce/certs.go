package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"

	"chargeonce/internal/certs"
)

// tlsFlags name the certificates of the gRPC and REST faces.
type tlsFlags struct {
	Cert     string `placeholder:"FILE" help:"PEM file of the certificate for gRPC and REST, and of those between it and its root; both then speak TLS and nothing else. A changed file is read again."`
	Key      string `placeholder:"FILE" help:"PEM file of its key."`
	ClientCA string `name:"client-ca" placeholder:"FILE" help:"PEM file of the CAs whose certificate every client must have: over gRPC, and over REST for the routes of payments. Probes can use the admin port."`
}

// store returns the certificates; nil when the flags name none.
func (f tlsFlags) store(log *slog.Logger) (*certs.Store, error) {
	if f.ClientCA != "" && f.Cert == "" {
		return nil, errors.New("--tls-client-ca is set, and --tls-cert is not")
	}
	return openCerts("--tls-", certs.Files{CA: f.ClientCA, Cert: f.Cert, Key: f.Key}, log)
}

// certificates returns what gRPC and REST speak TLS with; nil: they speak in clear.
func (f tlsFlags) certificates(log *slog.Logger) (func() *tls.Config, error) {
	store, err := f.store(log)
	if store == nil {
		return nil, err
	}
	return store.Server, nil
}

// openCerts reads the certificates that the flags of this prefix name; nil when they name none.
func openCerts(prefix string, f certs.Files, log *slog.Logger) (*certs.Store, error) {
	if f.Empty() {
		return nil, nil
	}
	s, err := certs.Open(f, log)
	if err != nil {
		return nil, fmt.Errorf("%s…: %w", prefix, err)
	}
	return s, nil
}
