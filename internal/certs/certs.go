// Package certs keeps certificates that are read from files, for connections by TLS 1.2 or newer.
//
// The files are looked at again when a connection is made, every few seconds at the most. So a certificate that was renewed is
// what the next connection uses, without a restart, and connections that stand are left alone. A new file that is broken is
// logged, and what was good before stays in use.
package certs

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The files are looked at again after this long, at random between the least and the sum.
const (
	lookLeast  = 2 * time.Second
	lookSpread = 4 * time.Second
)

// Files names PEM files. An empty name means that there is none.
type Files struct {
	// CA holds the certificates that the peer's own is checked against.
	CA string
	// Cert holds our own certificate, first, and those between it and its root. Key holds its private key. Both or neither.
	Cert, Key string
}

// Empty reports whether no file is named.
func (f Files) Empty() bool { return f == Files{} }

// Store holds what the files say. It is safe for concurrent use. Make one by [Open].
type Store struct {
	files Files
	log   *slog.Logger
	now   func() time.Time

	current atomic.Pointer[material]

	looking sync.Mutex // held by the one who looks at the files; who comes meanwhile takes what there is
	lookAt  time.Time
	fault   string // the last one that was logged
}

// material is what the files said at one time.
type material struct {
	raw   [3][]byte // CA, Cert, Key
	own   []tls.Certificate
	chain []*x509.Certificate // own's
	cas   []*x509.Certificate
	pool  *x509.CertPool // nil: no CA file
}

// Open reads the files. The error names the one that is at fault, and what is wrong with it. A certificate that has expired is
// none: whether to believe it is the peer's to say.
func Open(f Files, log *slog.Logger) (*Store, error) {
	s := &Store{files: f, log: log, now: time.Now}
	m, err := f.load(nil)
	if err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	s.current.Store(m)
	s.lookAt = s.now().Add(lookLeast)
	return s, nil
}

// Server returns the configuration of a connection that is being accepted. ClientCAs is nil when there is no CA file; whether
// clients must show a certificate is the caller's to set.
func (s *Store) Server() *tls.Config {
	m := s.latest()
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: m.own, ClientCAs: m.pool}
}

// Client returns the configuration of a connection that is being made, to a peer of that name. Without a CA file the peer is
// checked against the system's roots.
func (s *Store) Client(serverName string) *tls.Config {
	m := s.latest()
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: m.own, RootCAs: m.pool, ServerName: serverName}
}

// Certificates returns all that is in use: our own chain, then the CAs.
func (s *Store) Certificates() []*x509.Certificate {
	m := s.latest()
	return slices.Concat(m.chain, m.cas)
}

// latest looks at the files if it is time to.
func (s *Store) latest() *material {
	old := s.current.Load()
	if !s.looking.TryLock() {
		return old
	}
	defer s.looking.Unlock()
	now := s.now()
	if now.Before(s.lookAt) {
		return old
	}
	s.lookAt = now.Add(lookLeast + rand.N(lookSpread))
	m, err := s.files.load(old)
	switch {
	case err != nil:
		// A renewal that is half written is seen too, and is whole at the next look. So the same fault is told once.
		if text := err.Error(); text != s.fault {
			s.fault = text
			s.log.Error("certificates could not be read again; those from before stay in use", "error", err)
		}
		return old
	case m != old:
		s.log.Info("certificates renewed", "files", s.files)
		s.current.Store(m)
	}
	s.fault = ""
	return m
}

// load reads the files. It returns old when they say what they said then.
func (f Files) load(old *material) (*material, error) {
	if (f.Cert == "") != (f.Key == "") {
		return nil, errors.New("a certificate and its key go together: one of the two files is not named")
	}
	m := &material{}
	for i, path := range []string{f.CA, f.Cert, f.Key} {
		if path == "" {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		m.raw[i] = text
	}
	if old != nil && slices.EqualFunc(m.raw[:], old.raw[:], slices.Equal[[]byte]) {
		return old, nil
	}
	if f.CA != "" {
		var err error
		if m.cas, err = parse(m.raw[0]); err != nil {
			return nil, fmt.Errorf("%s: %w", f.CA, err)
		}
		m.pool = x509.NewCertPool()
		for _, c := range m.cas {
			m.pool.AddCert(c)
		}
	}
	if f.Cert != "" {
		pair, err := tls.X509KeyPair(m.raw[1], m.raw[2])
		if err != nil {
			return nil, fmt.Errorf("%s and %s: %w", f.Cert, f.Key, err)
		}
		m.own = []tls.Certificate{pair}
		if m.chain, err = parse(m.raw[1]); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Cert, err)
		}
	}
	return m, nil
}

// parse reads all certificates of a PEM file, of which there must be one at the least.
func parse(text []byte) ([]*x509.Certificate, error) {
	var found []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		found = append(found, c)
	}
	if len(found) == 0 {
		return nil, errors.New("holds no certificate in PEM form")
	}
	return found, nil
}
