package psp

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"chargeonce/internal/certs"
	"chargeonce/internal/certs/certstest"
)

// mutualTLS is a PSP that charges for clients with a certificate of the CA alone, and says which one it saw.
func mutualTLS(t *testing.T, ca *certstest.CA) (url string, saw chan string) {
	t.Helper()
	saw = make(chan string, 10)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		saw <- r.TLS.PeerCertificates[0].Subject.CommonName
		w.WriteHeader(http.StatusCreated)
		if _, err := io.WriteString(w, chargeJSON(testKey, "succeeded")); err != nil {
			t.Error(err)
		}
	}))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.TLS = certstest.Open(t, ca.Issue("psp")).Server()
	server.TLS.ClientAuth = tls.RequireAndVerifyClientCert
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL, saw
}

// The certificate is asked for at each connection, so that a renewed one is shown without a restart.
func TestThePSPIsShownTheClientCertificateOfTheMoment(t *testing.T) {
	t.Parallel()
	ca := certstest.NewCA(t, "ours")
	url, saw := mutualTLS(t, ca)
	files := [2]certs.Files{ca.Issue("old"), ca.Issue("new")}
	use := certstest.Open(t, files[0])
	c := serverClient(t, url, Config{TLS: func(host string) *tls.Config { return use.Client(host) }})
	charge := func(want string) {
		if r := c.Charge(within(t, 20*time.Second), testRequest); r.Kind != Succeeded {
			t.Fatalf("got %+v", r)
		}
		if got := <-saw; got != want {
			t.Errorf("the PSP saw %s, want %s", got, want)
		}
	}
	charge("old")
	use = certstest.Open(t, files[1])
	charge("old") // over the connection that stands
	c.transport.(*http.Transport).CloseIdleConnections()
	charge("new")
}

func TestAPSPThatRefusesOurCertificateWasNotSentAnything(t *testing.T) {
	t.Parallel()
	ca, other := certstest.NewCA(t, "ours"), certstest.NewCA(t, "another")
	url, saw := mutualTLS(t, ca)
	for name, files := range map[string]certs.Files{
		"the PSP is of another CA": other.Issue("client"),
		"no client certificate":    {CA: ca.File},
	} {
		store := certstest.Open(t, files)
		c := serverClient(t, url, Config{MaxAttempts: 1, TLS: func(host string) *tls.Config {
			c := store.Client(host)
			c.MaxVersion = tls.VersionTLS12 // in 1.3 a client learns of a refusal only after it has sent its request
			return c
		}})
		if r := c.Charge(within(t, 20*time.Second), testRequest); r.Kind != NotSent || r.NotSent != ConnectFailed {
			t.Errorf("%s: got %+v", name, r)
		}
	}
	if len(saw) != 0 {
		t.Error("a request reached the PSP")
	}
}

// A host that takes the connection and says nothing is told from one that is slow with its answer.
func TestATLSHandshakeIsBounded(t *testing.T) {
	t.Parallel()
	lis, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts; nobody answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lis.Close(); err != nil {
			t.Error(err)
		}
	})
	ca := certstest.NewCA(t, "ours")
	c := serverClient(t, "https://"+lis.Addr().String(), Config{MaxAttempts: 1, AttemptTimeout: 10 * time.Second,
		DialTimeout: 100 * time.Millisecond, TLS: certstest.Open(t, certs.Files{CA: ca.File}).Client})
	start := time.Now()
	r := c.Charge(within(t, 20*time.Second), testRequest)
	if took := time.Since(start); r.NotSent != ConnectFailed || took > 5*time.Second {
		t.Errorf("after %v: %+v", took, r)
	}
}
