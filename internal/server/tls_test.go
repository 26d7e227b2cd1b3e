package server_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	paymentsv1 "chargeonce/api/payments/v1"
	"chargeonce/internal/certs"
	"chargeonce/internal/certs/certstest"
	"chargeonce/internal/server"
)

// secured is a server over TLS. Its certificates can be changed while it runs.
type secured struct {
	*env
	now atomic.Pointer[certs.Store]
}

func newSecured(t *testing.T, files certs.Files) *secured {
	t.Helper()
	s := &secured{}
	s.now.Store(certstest.Open(t, files))
	events := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	s.env = newEnv(t, options{server: server.Config{Webhook: events, TLS: func() *tls.Config { return s.now.Load().Server() }}})
	return s
}

// alone leaves the CA out: no client certificate is wanted.
func alone(f certs.Files) certs.Files {
	f.CA = ""
	return f
}

// overTLS is a client with the store's certificates; it speaks HTTP/2 if h2, and else HTTP/1.1.
func overTLS(t *testing.T, s *certs.Store, h2 bool) *http.Client {
	t.Helper()
	var protocols http.Protocols
	protocols.SetHTTP1(!h2)
	protocols.SetHTTP2(h2)
	transport := &http.Transport{Protocols: &protocols, TLSClientConfig: s.Client("127.0.0.1")}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 30 * time.Second}
}

// ask sends a request and returns the response and the name in the server's certificate.
func (s *secured) ask(c *http.Client, method, path string) (*http.Response, string, error) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, "https://"+s.addrs.REST+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header = s.header("")
	resp, err := c.Do(req)
	if err != nil {
		return nil, "", err
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		s.t.Error(err)
	}
	return resp, resp.TLS.PeerCertificates[0].Subject.CommonName, resp.Body.Close()
}

// list asks over a gRPC connection of the store's.
func (s *secured) list(conn *grpc.ClientConn) error {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+s.apiKey)
	_, err := paymentsv1.NewPaymentServiceClient(conn).ListPayments(ctx, &paymentsv1.ListPaymentsRequest{})
	return err
}

func (s *secured) dial(cfg *tls.Config) *grpc.ClientConn {
	s.t.Helper()
	conn, err := grpc.NewClient(s.addrs.GRPC, grpc.WithTransportCredentials(credentials.NewTLS(cfg)))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			s.t.Error(err)
		}
	})
	return conn
}

func TestBothFacesSpeakTLSAndNothingElse(t *testing.T) {
	t.Parallel()
	ca := certstest.NewCA(t, "ours")
	s := newSecured(t, alone(ca.Issue("server")))
	trusting := certstest.Open(t, certs.Files{CA: ca.File})
	for h2, want := range map[bool]string{false: "HTTP/1.1", true: "HTTP/2.0"} {
		resp, _, err := s.ask(overTLS(t, trusting, h2), http.MethodGet, "/payments")
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusOK || resp.Proto != want || !strings.HasPrefix(resp.Header.Get("Strict-Transport-Security"), "max-age=") {
			t.Errorf("want %s: %s %s %v", want, resp.Proto, resp.Status, resp.Header)
		}
	}
	if err := s.list(s.dial(trusting.Client("127.0.0.1"))); err != nil {
		t.Errorf("gRPC: %v", err)
	}
	if err := s.list(s.conn); status.Code(err) != codes.Unavailable {
		t.Errorf("gRPC in clear: %v", err)
	}
	if resp, _ := s.get("/healthz", nil); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("REST in clear: %s", resp.Status)
	}
	if body := s.admin(http.MethodGet, "/readyz"); body != "ok\n" {
		t.Errorf("the admin port is in clear: %s", body)
	}
}

func TestWhatEachFaceNegotiates(t *testing.T) {
	t.Parallel()
	ca := certstest.NewCA(t, "ours")
	s := newSecured(t, alone(ca.Issue("server")))
	for _, tt := range []struct {
		name, addr, want string
		offer            []string
		version          uint16
		refused          bool
	}{
		{name: "gRPC", addr: s.addrs.GRPC, offer: []string{"h2"}, want: "h2"},
		{name: "gRPC, HTTP/1.1 alone", addr: s.addrs.GRPC, offer: []string{"http/1.1"}, refused: true},
		{name: "REST, both", addr: s.addrs.REST, offer: []string{"h2", "http/1.1"}, want: "h2"},
		{name: "REST, HTTP/1.1 alone", addr: s.addrs.REST, offer: []string{"http/1.1"}, want: "http/1.1"},
		{name: "REST, nothing offered", addr: s.addrs.REST, want: ""},
		{name: "REST, TLS 1.2", addr: s.addrs.REST, version: tls.VersionTLS12},
		{name: "REST, TLS 1.1", addr: s.addrs.REST, version: tls.VersionTLS11, refused: true},
		{name: "gRPC, TLS 1.1", addr: s.addrs.GRPC, offer: []string{"h2"}, version: tls.VersionTLS11, refused: true},
	} {
		cfg := certstest.Open(t, certs.Files{CA: ca.File}).Client("127.0.0.1")
		cfg.NextProtos = tt.offer
		if tt.version != 0 {
			cfg.MinVersion, cfg.MaxVersion = tls.VersionTLS10, tt.version
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		conn, err := (&tls.Dialer{Config: cfg}).DialContext(ctx, "tcp", tt.addr)
		cancel()
		if err == nil && tt.refused { // if not by the handshake, then by hanging up after it
			if _, readErr := conn.Read(make([]byte, 1)); readErr != nil {
				err = errors.Join(readErr, conn.Close())
			}
		}
		if (err != nil) != tt.refused {
			t.Errorf("%s: %v", tt.name, err)
		}
		if err != nil {
			continue
		}
		if got := conn.(*tls.Conn).ConnectionState().NegotiatedProtocol; got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Over both faces the connection that stands goes on, and a new one meets the new certificate.
func TestARenewedCertificateDropsNoConnection(t *testing.T) {
	t.Parallel()
	ca := certstest.NewCA(t, "ours")
	s := newSecured(t, alone(ca.Issue("old")))
	trusting := certstest.Open(t, certs.Files{CA: ca.File})
	var dials atomic.Int64
	counting := trusting.Client("127.0.0.1")
	counting.VerifyConnection = func(tls.ConnectionState) error { dials.Add(1); return nil }
	standing := map[bool]*http.Client{false: overTLS(t, trusting, false), true: overTLS(t, trusting, true)}
	grpcStanding := s.dial(counting)
	all := func(when string) {
		t.Helper()
		for h2, c := range standing {
			if _, name, err := s.ask(c, http.MethodGet, "/payments"); err != nil || name != "old" {
				t.Errorf("%s: HTTP/2 %t: %q, %v", when, h2, name, err)
			}
		}
		if err := s.list(grpcStanding); err != nil || dials.Load() != 1 {
			t.Errorf("%s: gRPC: %v, %d connections", when, err, dials.Load())
		}
	}
	all("before")
	s.now.Store(certstest.Open(t, alone(ca.Issue("new"))))
	all("after")
	if _, name, err := s.ask(overTLS(t, trusting, true), http.MethodGet, "/payments"); err != nil || name != "new" {
		t.Errorf("a new connection over REST: %q, %v", name, err)
	}
	var seen string
	cfg := trusting.Client("127.0.0.1")
	cfg.VerifyConnection = func(cs tls.ConnectionState) error {
		seen = cs.PeerCertificates[0].Subject.CommonName
		return nil
	}
	if err := s.list(s.dial(cfg)); err != nil || seen != "new" {
		t.Errorf("a new connection over gRPC: %q, %v", seen, err)
	}
}

// With a client CA, nobody pays or reads without a certificate of it. Probes have none, and the PSP's events are signed.
func TestWithAClientCAOnlyItsClientsReachThePayments(t *testing.T) {
	t.Parallel()
	ca, other := certstest.NewCA(t, "ours"), certstest.NewCA(t, "another")
	s := newSecured(t, ca.Issue("server"))
	stranger := other.Issue("stranger")
	stranger.CA = ca.File
	for _, tt := range []struct {
		name              string
		files             certs.Files
		connects, payment bool
	}{
		{"with a certificate", ca.Issue("client"), true, true},
		{"with none", certs.Files{CA: ca.File}, true, false},
		{"with another CA's", stranger, true, false}, // which Go's client keeps to itself, since the server named the CA that it wants
	} {
		store := certstest.Open(t, tt.files)
		for _, h2 := range []bool{false, true} {
			c := overTLS(t, store, h2)
			for path, want := range map[string]int{"/healthz": 200, "/openapi.json": 200, "/payments": map[bool]int{true: 200, false: 401}[tt.payment]} {
				if resp, _, err := s.ask(c, http.MethodGet, path); err != nil || resp.StatusCode != want {
					t.Errorf("%s, HTTP/2 %t: %s: %v %v, want %d", tt.name, h2, path, resp, err, want)
				}
			}
			if resp, _, err := s.ask(c, http.MethodPost, "/webhooks/psp"); err != nil || resp.StatusCode != http.StatusNoContent {
				t.Errorf("%s, HTTP/2 %t: an event: %v %v", tt.name, h2, resp, err)
			}
		}
		if err := s.list(s.dial(store.Client("127.0.0.1"))); (err == nil) != tt.payment || err != nil && status.Code(err) != codes.Unavailable {
			t.Errorf("%s: gRPC: %v", tt.name, err)
		}
	}
	forced := certstest.Open(t, stranger).Client("127.0.0.1")
	own := forced.Certificates[0]
	forced.Certificates = nil
	forced.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil }
	conn, err := (&tls.Dialer{Config: forced}).DialContext(t.Context(), "tcp", s.addrs.REST)
	if err == nil { // TLS 1.3: the refusal is read, not met in the handshake
		_, err = io.Copy(io.Discard, conn)
		err = errors.Join(err, conn.Close())
	}
	if err == nil || !strings.Contains(err.Error(), "tls:") {
		t.Errorf("another CA's certificate, shown all the same: %v", err)
	}
}
