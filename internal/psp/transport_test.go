package psp

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// droppingServer answers the first request of each connection with 201, and drops the connection after reading the second. It
// counts the requests that it read.
func droppingServer(t *testing.T, body string) (url string, requests *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var owned sync.WaitGroup
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
		owned.Wait()
	})
	requests = new(atomic.Int64)
	owned.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			owned.Go(func() {
				if err := serveThenDrop(conn, body, requests); err != nil {
					t.Errorf("dropping server: %v", err)
				}
			})
		}
	})
	return "http://" + listener.Addr().String(), requests
}

func serveThenDrop(conn net.Conn, body string, requests *atomic.Int64) (err error) {
	defer func() { err = errors.Join(err, conn.Close()) }()
	r := bufio.NewReader(conn)
	for i := range 2 {
		req, err := http.ReadRequest(r)
		if err != nil {
			return nil // The client closed an idle connection.
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return err
		}
		if req.URL.Path != "/healthz" {
			requests.Add(1)
		}
		if i == 0 {
			resp := http.Response{StatusCode: 201, ProtoMajor: 1, ProtoMinor: 1, ContentLength: int64(len(body)),
				Body: io.NopCloser(strings.NewReader(body))}
			if err := resp.Write(conn); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestADroppedWarmConnectionIsNotSentAgainByNetHTTP: net/http would send a POST with an Idempotency-Key, or any GET, once
// more on each warm connection. Here every request that reaches the server is an attempt of ours.
func TestADroppedWarmConnectionIsNotSentAgainByNetHTTP(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(*Client, context.Context) Result{
		"POST": func(c *Client, ctx context.Context) Result { return c.Charge(ctx, testRequest) },
		"GET":  func(c *Client, ctx context.Context) Result { return c.LookUp(ctx, testKey, testRequest.Expect()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, requests := droppingServer(t, "ok")
			c := serverClient(t, url, Config{MaxAttempts: 1, Slots: 8})
			if err := c.Warm(within(t, 20*time.Second)); err != nil {
				t.Fatal(err)
			}
			result := ask(c, within(t, 20*time.Second))
			if result.Kind != Unknown || result.Attempts != 1 {
				t.Errorf("got %v in %d attempts, want unknown in 1", result.Kind, result.Attempts)
			}
			if n := requests.Load(); n != 1 {
				t.Errorf("%d requests reached the server, want 1", n)
			}
		})
	}
}

func TestWarmOpensAConnectionPerSlotAndChargesUseThem(t *testing.T) {
	t.Parallel()
	var opened atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" && r.Header.Get("Authorization") != "" {
			t.Error("the health page was given the credential")
		}
		w.WriteHeader(http.StatusCreated)
		if _, err := io.WriteString(w, chargeJSON(testKey, "succeeded")); err != nil {
			t.Error(err)
		}
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	c := serverClient(t, server.URL, Config{Slots: 16})
	if err := c.Warm(within(t, 20*time.Second)); err != nil {
		t.Fatal(err)
	}
	if n := opened.Load(); n != 16 {
		t.Fatalf("warming opened %d connections, want 16", n)
	}
	results := make(chan Result)
	for range 16 {
		go func() { results <- c.Charge(context.Background(), testRequest) }()
	}
	for range 16 {
		if r := <-results; r.Kind != Succeeded {
			t.Errorf("got %v: %v", r.Kind, r.Err)
		}
	}
	if n := opened.Load(); n != 16 {
		t.Errorf("%d connections after the charges, want 16", n)
	}
}

func TestWarmSaysHowManyConnectionsFailed(t *testing.T) {
	t.Parallel()
	c := serverClient(t, closedAddress(t), Config{Slots: 3})
	err := c.Warm(within(t, 20*time.Second))
	if err == nil || !strings.HasPrefix(err.Error(), "psp: 0 of 3 connections warmed: ") {
		t.Errorf("got %v", err)
	}
}

// closedAddress is a URL at which nothing listens.
func closedAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return "http://" + listener.Addr().String()
}

func TestWhatNeverGotAConnectionIsNotSent(t *testing.T) {
	t.Parallel()
	tlsServer := httptest.NewUnstartedServer(http.NotFoundHandler())
	tlsServer.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	tlsServer.StartTLS()
	t.Cleanup(tlsServer.Close)
	for name, url := range map[string]string{
		"connection refused":       closedAddress(t),
		"name does not resolve":    "http://psp..invalid",
		"certificate not trusted":  tlsServer.URL,
		"TLS with a plain service": strings.Replace(plainServer(t).URL, "http:", "https:", 1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serverClient(t, url, Config{MaxAttempts: 2, BackoffBase: time.Millisecond})
			r := c.Charge(within(t, 20*time.Second), testRequest)
			if r.Kind != NotSent || r.NotSent != ConnectFailed || r.Attempts != 0 || r.Err == nil {
				t.Errorf("got %+v", r)
			}
		})
	}
}

func plainServer(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.Start()
	t.Cleanup(server.Close)
	return server
}

func TestTLSIsSpokenAsConfiguredOverHTTP1(t *testing.T) {
	t.Parallel()
	proto := make(chan string, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proto <- r.Proto
		w.WriteHeader(http.StatusCreated)
		if _, err := io.WriteString(w, chargeJSON(testKey, "succeeded")); err != nil {
			t.Error(err)
		}
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	c := serverClient(t, server.URL, Config{TLS: func(host string) *tls.Config {
		return &tls.Config{RootCAs: roots, ServerName: host, MinVersion: tls.VersionTLS12}
	}})
	r := c.Charge(within(t, 20*time.Second), testRequest)
	if r.Kind != Succeeded {
		t.Fatalf("got %+v", r)
	}
	if got := <-proto; got != "HTTP/1.1" {
		t.Errorf("spoke %s", got)
	}
}

func TestNoProxyIsTakenFromTheEnvironment(t *testing.T) {
	t.Parallel()
	if newTransport(Config{}.withDefaults()).Proxy != nil {
		t.Error("the transport asks for a proxy")
	}
}
