package main

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/internal/certs"
	"chargeonce/internal/certs/certstest"
	"chargeonce/internal/mysql"
	"chargeonce/internal/server"
)

// running is a `chargeonce serve` of a test's own; it is killed when the test ends.
type running struct {
	*program
	t     *testing.T
	addrs server.Addrs
	wait  func() error
	log   *logBuffer
}

// logBuffer can be read while it is written.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// launch starts serve and does not wait until it listens.
func launch(t *testing.T, dsn string, change func(*program), args ...string) *running {
	t.Helper()
	s := &running{t: t, log: &logBuffer{}}
	s.program = chargeonce(t, dsn, append([]string{"serve", "--grpc-listen", "127.0.0.1:0", "--rest-listen", "127.0.0.1:0",
		"--admin-listen", "127.0.0.1:0", "--addr-file", filepath.Join(t.TempDir(), "addrs.json")}, args...)...)
	s.Stderr = s.log
	if change != nil {
		change(s.program)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	s.wait = sync.OnceValue(s.Wait)
	t.Cleanup(func() {
		if err := s.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Error(err)
		}
		if err := s.wait(); err != nil {
			t.Logf("serve: %v", err)
		}
		if t.Failed() {
			log := s.log.String()
			t.Logf("the end of its log:\n%s", log[max(0, len(log)-4000):])
		}
	})
	return s
}

func (s *running) listens() *running {
	s.t.Helper()
	var file string
	for i, arg := range s.Args {
		if arg == "--addr-file" {
			file = s.Args[i+1]
		}
	}
	until(s.t, "the address file", func() bool {
		text, err := os.ReadFile(file)
		return err == nil && json.Unmarshal(text, &s.addrs) == nil
	})
	return s
}

func (s *running) signal() {
	s.t.Helper()
	if err := s.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
}

// httpStatus asks a page; 0 when nobody answers.
func httpStatus(t *testing.T, url string) int {
	t.Helper()
	client := &http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	resp, err := client.Get(url)
	if err != nil {
		return 0
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	return resp.StatusCode
}

func hanging(t *testing.T) *gatewaysim.Running {
	t.Helper()
	sim := gatewaysim.Start(t, gatewaysim.Config{})
	if err := sim.SetFaults(gatewaysim.Faults{Rules: []gatewaysim.Rule{{Fault: gatewaysim.Hang}}}); err != nil {
		t.Fatal(err)
	}
	return sim
}

// The first signal turns readiness off and waits for the purchase under way; the second one does not wait.
func TestASecondSIGTERMEndsItAtOnce(t *testing.T) {
	t.Parallel()
	db, sim := mysql.NewTestDB(t), hanging(t)
	s := launch(t, db.DSN, nil, "--psp-url", sim.URL, "--psp-attempt-timeout", "25s").listens()
	key := chargeonce(t, db.DSN, "apikey", "create", "--user", "7").succeed(t)
	gone := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.addrs.REST+"/payments",
			strings.NewReader(`{"order_id":"o-1","amount":1250,"currency":"EUR","payment_method":"tok_visa"}`))
		if err != nil {
			gone <- err
			return
		}
		req.Header = http.Header{"Authorization": {"Bearer " + key}, "Content-Type": {"application/json"}, "Idempotency-Key": {"k"}, "Grpc-Timeout": {"25S"}}
		client := &http.Client{Timeout: time.Minute}
		resp, err := client.Do(req)
		if err == nil {
			err = errors.Join(fmt.Errorf("it was answered %s", resp.Status), resp.Body.Close())
		} else {
			err = nil
		}
		gone <- err
	}()
	until(t, "the purchase is at the PSP", func() bool { return sim.Stats().Hung == 1 })
	s.signal()
	until(t, "not ready", func() bool { return httpStatus(t, "http://"+s.addrs.Admin+"/readyz") == http.StatusServiceUnavailable })
	if got := httpStatus(t, "http://"+s.addrs.Admin+"/healthz"); got != http.StatusOK {
		t.Errorf("draining, /healthz: %d", got)
	}
	start := time.Now()
	s.signal()
	err := s.wait()
	var exit *exec.ExitError
	if took := time.Since(start); !errors.As(err, &exit) || exit.Success() || took > 5*time.Second {
		t.Errorf("after %v: %v", took, err)
	}
	if err := <-gone; err != nil {
		t.Error(err)
	}
}

// MySQL is not there at the start, comes, goes and comes back. Nobody touches the server.
func TestServeWaitsForMySQLAndOutlivesItsAbsence(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	proxy := mysql.NewFaultProxy(t, db.DSN)
	proxy.Cut()
	s := launch(t, proxy.DSN, nil, "--psp-url", gatewaysim.Start(t, gatewaysim.Config{}).URL)
	until(t, "it says what it waits for", func() bool { return strings.Contains(s.log.String(), "waiting for the database") })
	proxy.Mend()
	s.listens()
	key := chargeonce(t, db.DSN, "apikey", "create", "--user", "7").succeed(t)
	pay := func(idempotencyKey string) int {
		return post(t, "http://"+s.addrs.REST+"/payments", key, idempotencyKey).StatusCode
	}
	if got := pay("first"); got != http.StatusCreated {
		t.Errorf("a payment: %d", got)
	}
	proxy.Cut()
	if got := pay("second"); got != http.StatusServiceUnavailable {
		t.Errorf("cut off: %d", got)
	}
	if ready, alive := httpStatus(t, "http://"+s.addrs.REST+"/readyz"), httpStatus(t, "http://"+s.addrs.REST+"/healthz"); ready != 503 || alive != 200 {
		t.Errorf("cut off: /readyz %d, /healthz %d", ready, alive)
	}
	proxy.Mend()
	until(t, "ready again", func() bool { return httpStatus(t, "http://"+s.addrs.REST+"/readyz") == http.StatusOK })
	if got := pay("second"); got != http.StatusCreated {
		t.Errorf("afterwards: %d", got)
	}
}

func TestTheWaitForMySQLIsBounded(t *testing.T) {
	t.Parallel()
	proxy := mysql.NewFaultProxy(t, mysql.NewEmptyTestDB(t))
	proxy.Cut()
	for want, args := range map[int][]string{
		1: {"serve", "--psp-url", "http://127.0.0.1:1"},
		2: {"reconcile", "--psp-url", "http://127.0.0.1:1"},
	} {
		p := chargeonce(t, proxy.DSN, append(args, "--mysql-wait", "300ms")...)
		var exit *exec.ExitError
		if err := p.Run(); !errors.As(err, &exit) || exit.ExitCode() != want || !strings.Contains(p.stderr.String(), "not reachable in time") {
			t.Errorf("%v: %v, want exit status %d\n%s", args, err, want, p.stderr.String())
		}
	}
	p := chargeonce(t, proxy.DSN, "migrate", "up", "--mysql-wait", "300ms")
	if err := p.Run(); err == nil || !strings.Contains(p.stderr.String(), "not reachable in time") {
		t.Errorf("migrate: %v\n%s", err, p.stderr.String())
	}
}

// All that serve needs to keep secret comes from files, each ended by a newline as editors and orchestrators leave it.
func TestServeTakesSecretsAndCertificatesFromFiles(t *testing.T) {
	t.Parallel()
	db, sim, ca := mysql.NewTestDB(t), gatewaysim.Start(t, gatewaysim.Config{}), certstest.NewCA(t, "ours")
	cfg, err := driver.ParseDSN(db.DSN)
	if err != nil {
		t.Fatal(err)
	}
	password := cfg.Passwd
	cfg.Passwd = ""
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	faces := ca.Issue("old")
	args := []string{"--mysql-dsn-file", file("dsn", cfg.FormatDSN()), "--mysql-password-file", file("password", password),
		"--psp-url", sim.URL, "--psp-api-key-file", file("psp", gatewaysim.DemoAPIKey), "--webhook-secrets-file", file("webhook", gatewaysim.DemoWebhookSecret()),
		"--page-token-key-file", file("page", "a page token key of this test"), "--tls-cert", faces.Cert, "--tls-key", faces.Key}
	fromFiles := func(p *program) {
		p.Env = append(os.Environ(), "BE_CHARGEONCE=1", "MYSQL_DSN=", "CHARGEONCE_MYSQL_DSN=", "CHARGEONCE_PSP_API_KEY=", "CHARGEONCE_WEBHOOK_SECRETS=")
	}
	s := launch(t, "", fromFiles, args...).listens()
	if got := httpStatus(t, "http://"+s.addrs.Admin+"/readyz"); got != http.StatusOK {
		t.Errorf("/readyz on the admin port: %d", got)
	}
	trusting := certstest.Open(t, certs.Files{CA: ca.File})
	shown := func() string {
		conn, err := tls.Dial("tcp", s.addrs.REST, trusting.Client("127.0.0.1"))
		if err != nil {
			t.Fatal(err)
		}
		name := conn.ConnectionState().PeerCertificates[0].Subject.CommonName
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		return name
	}
	if got := shown(); got != "old" {
		t.Errorf("it shows %s", got)
	}
	ca.Renew(faces, "new", time.Hour)
	until(t, "the renewed certificate", func() bool { return shown() == "new" })

	empty := launch(t, "", fromFiles, append(args[:2:2], "--mysql-password-file", file("empty", ""), "--psp-url", sim.URL, "--psp-api-key-file", file("psp2", "x"))...)
	if err := empty.wait(); err == nil || !strings.Contains(empty.log.String(), "is empty") {
		t.Errorf("an empty password file: %v", err)
	}
}

// doctor is run as on-call would, against a server that has taken payments.
func TestDoctorHoldsTheSlowMarkAgainstAServersOwnMeasurements(t *testing.T) {
	t.Parallel()
	db, sim := mysql.NewTestDB(t), gatewaysim.Start(t, gatewaysim.Config{})
	s := launch(t, db.DSN, nil, "--psp-url", sim.URL).listens()
	key := chargeonce(t, db.DSN, "apikey", "create", "--user", "7").succeed(t)
	doctor := func(wantExit int, more ...string) map[string]finding {
		t.Helper()
		p := chargeonce(t, db.DSN, append([]string{"doctor", "--output", "json", "--psp-url", sim.URL, "--admin-url", "http://" + s.addrs.Admin}, more...)...)
		var exit *exec.ExitError
		if err := p.Run(); (err == nil) != (wantExit == 0) || err != nil && (!errors.As(err, &exit) || exit.ExitCode() != wantExit) {
			t.Fatalf("doctor: %v, want exit status %d\n%s", err, wantExit, p.stderr.String())
		}
		var report struct{ Checks []finding }
		if err := json.Unmarshal(p.stdout.Bytes(), &report); err != nil {
			t.Fatalf("%v\n%s", err, p.stdout.String())
		}
		found := map[string]finding{}
		for _, f := range report.Checks {
			found[f.Check] = f
		}
		return found
	}
	if f := doctor(0)["psp slow mark"]; f.Status != warn || !strings.Contains(f.Found, "measured 0 charges") {
		t.Errorf("before any payment: %+v", f)
	}
	var paying sync.WaitGroup
	for worker := range 4 {
		paying.Go(func() {
			for n := range leastCharges / 4 {
				if got := post(t, "http://"+s.addrs.REST+"/payments", key, fmt.Sprintf("k-%d-%d", worker, n)).StatusCode; got != http.StatusCreated {
					t.Errorf("a payment: %d", got)
				}
			}
		})
	}
	paying.Wait()
	if f := doctor(0)["psp slow mark"]; f.Status != ok || !strings.Contains(f.Found, "p99 of 100 charges") {
		t.Errorf("afterwards: %+v", f)
	}
	if err := sim.SetFaults(gatewaysim.Faults{Latency: fixed(t, "fixed 60ms")}); err != nil {
		t.Fatal(err)
	}
	for n := range 5 {
		post(t, "http://"+s.addrs.REST+"/payments", key, fmt.Sprintf("slow-%d", n))
	}
	if f := doctor(1, "--psp-slow", "10ms")["psp slow mark"]; f.Status != fail {
		t.Errorf("a mark below the p99: %+v", f)
	}
	table := strings.Split(chargeonce(t, db.DSN, "doctor", "--psp-url", sim.URL).succeed(t), "\n")
	if len(table) != 15 || !strings.HasPrefix(table[9], "warn  psp api key") {
		t.Errorf("as a table:\n%s", strings.Join(table, "\n"))
	}
}

func fixed(t *testing.T, text string) (l gatewaysim.Latency) {
	t.Helper()
	if err := l.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return l
}

// Read-only mode is switched on a server that runs, by what on-call has at hand.
func TestReadOnlyModeOfTheProgram(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	s := launch(t, db.DSN, nil, "--read-only", "--psp-url", gatewaysim.Start(t, gatewaysim.Config{}).URL).listens()
	key := chargeonce(t, db.DSN, "apikey", "create", "--user", "7").succeed(t)
	if got := post(t, "http://"+s.addrs.REST+"/payments", key, "k").StatusCode; got != http.StatusServiceUnavailable {
		t.Errorf("read-only: %d", got)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, "http://"+s.addrs.Admin+"/admin/read-only", nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "{\"read_only\":false}\n" {
		t.Errorf("%s %v", text, err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	if got := post(t, "http://"+s.addrs.REST+"/payments", key, "k").StatusCode; got != http.StatusCreated {
		t.Errorf("switched: %d", got)
	}
}
