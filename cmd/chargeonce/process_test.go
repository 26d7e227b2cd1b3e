package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/internal/mysql"
	"chargeonce/internal/server"
	"chargeonce/migrations"
)

// The tests here run the program as it is: this test binary, which becomes chargeonce when it is told to.
func TestMain(m *testing.M) {
	if os.Getenv("BE_CHARGEONCE") == "1" {
		main()
		return
	}
	os.Exit(m.Run())
}

// program is one run of it.
type program struct {
	*exec.Cmd
	stdout, stderr bytes.Buffer
}

func chargeonce(t *testing.T, dsn string, args ...string) *program {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	p := &program{Cmd: exec.CommandContext(ctx, os.Args[0], args...)}
	p.Env = append(os.Environ(), "BE_CHARGEONCE=1", "MYSQL_DSN=", "CHARGEONCE_MYSQL_DSN="+dsn, "CHARGEONCE_PSP_API_KEY="+gatewaysim.DemoAPIKey,
		"CHARGEONCE_WEBHOOK_SECRETS="+gatewaysim.DemoWebhookSecret())
	p.Stdout, p.Stderr = &p.stdout, &p.stderr
	return p
}

func (p *program) succeed(t *testing.T) string {
	t.Helper()
	if err := p.Run(); err != nil {
		t.Fatalf("%v: %v\n%s", p.Args[1:], err, p.stderr.String())
	}
	return strings.TrimSpace(p.stdout.String())
}

func TestServeFromStartToSIGTERM(t *testing.T) {
	t.Parallel()
	dsn := mysql.NewEmptyTestDB(t)
	sim := gatewaysim.Start(t, gatewaysim.Config{})
	addrFile := filepath.Join(t.TempDir(), "addrs.json")
	serve := chargeonce(t, dsn, "serve", "--migrate", "--psp-url", sim.URL, "--one-payment-per-order", "--max-in-flight", "8",
		"--rate-limit", "0.001", "--rate-burst", "2", "--grpc-listen", "127.0.0.1:0",
		"--rest-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--addr-file", addrFile)
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	wait := sync.OnceValue(serve.Wait)
	t.Cleanup(func() {
		if err := serve.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Error(err)
		}
		if err := wait(); err != nil {
			t.Logf("serve: %v", err)
		}
	})
	var addrs server.Addrs
	until(t, "the address file", func() bool {
		text, err := os.ReadFile(addrFile)
		return err == nil && json.Unmarshal(text, &addrs) == nil
	})

	key := chargeonce(t, dsn, "apikey", "create", "--user", "7").succeed(t)
	resp := post(t, "http://"+addrs.REST+"/payments", key, "a-key-of-this-test")
	if resp.StatusCode != http.StatusCreated || resp.Header.Get("Location") == "" {
		t.Errorf("POST /payments: %s", resp.Status)
	}
	if resp := post(t, "http://"+addrs.REST+"/payments", key, "another-key-for-the-order"); resp.StatusCode != http.StatusConflict {
		t.Errorf("the order under another key: %s", resp.Status)
	}
	if resp := post(t, "http://"+addrs.REST+"/payments", key, "a-key-of-this-test"); resp.StatusCode != http.StatusTooManyRequests {
		t.Errorf("beyond the burst: %s", resp.Status)
	}
	if resp := post(t, "http://"+addrs.REST+"/webhooks/psp", key, "a-key-of-this-test"); resp.StatusCode < 400 || resp.StatusCode == http.StatusNotFound {
		t.Errorf("an event without a signature: %s", resp.Status)
	}
	list := chargeonce(t, dsn, "apikey", "list").succeed(t)
	if !strings.Contains(list, key[:12]+"…") || strings.Contains(list, key) {
		t.Errorf("apikey list:\n%s", list)
	}

	if err := serve.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := wait(); err != nil {
		t.Errorf("after SIGTERM: %v, want exit status 0\n%s", err, serve.stderr.String())
	}
	log := serve.stderr.String()
	for _, want := range []string{`"msg":"listening"`, addrs.GRPC, "THE DEMO PSP API KEY", "THE DEMO WEBHOOK SECRET", "no page token key", `"msg":"stopped"`} {
		if !strings.Contains(log, want) {
			t.Errorf("the log has no %s:\n%s", want, log)
		}
	}
	if strings.Contains(log, gatewaysim.DemoAPIKey) || strings.Contains(log, key) {
		t.Errorf("the log has a secret:\n%s", log)
	}
}

func post(t *testing.T, url, apiKey, key string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url,
		strings.NewReader(`{"order_id":"o-1","amount":1250,"currency":"EUR","payment_method":"tok_visa"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+apiKey)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	client := &http.Client{Timeout: 30 * time.Second}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	client.CloseIdleConnections()
	return resp
}

func TestServeRefusesASchemaThatItCannotRunOn(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	if err := migrations.Down(t.Context(), db.DB, 1); err != nil {
		t.Fatal(err)
	}
	serve := func() string {
		p := chargeonce(t, db.DSN, "serve", "--psp-url", "http://127.0.0.1:1")
		if err := p.Run(); err == nil {
			t.Error("serve ended with exit status 0")
		}
		return p.stderr.String()
	}
	if log := serve(); !strings.Contains(log, "run `chargeonce migrate up`") {
		t.Errorf("older: %s", log)
	}
	if out := chargeonce(t, db.DSN, "migrate", "up").succeed(t); !strings.HasPrefix(out, "version ") || strings.Contains(out, "dirty") {
		t.Errorf("migrate up: %s", out)
	}
	if _, err := db.ExecContext(t.Context(), `UPDATE schema_migrations SET dirty = TRUE`); err != nil {
		t.Fatal(err)
	}
	if log := serve(); !strings.Contains(log, "dirty") {
		t.Errorf("dirty: %s", log)
	}
}

func TestReconcileEndsTheProcessWithItsStatus(t *testing.T) {
	t.Parallel()
	dsn := mysql.NewTestDB(t).DSN
	p := chargeonce(t, dsn, "reconcile", "--psp-url", gatewaysim.Start(t, gatewaysim.Config{}).URL)
	if err := p.Run(); err != nil {
		t.Errorf("nothing to do: %v\n%s", err, p.stderr.String())
	}
	nobody := chargeonce(t, dsn+"_that_is_not_there", "reconcile", "--psp-url", "http://127.0.0.1:1")
	var exit *exec.ExitError
	if err := nobody.Run(); !errors.As(err, &exit) || exit.ExitCode() != 2 {
		t.Errorf("no database: %v, want exit status 2\n%s", err, nobody.stderr.String())
	}
}

func TestMigrateDownNeedsToKnowHowFar(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	if err := chargeonce(t, db.DSN, "migrate", "down").Run(); err == nil {
		t.Error("migrate down without --steps or --all did something")
	}
	if err := chargeonce(t, db.DSN, "migrate", "down", "--steps", "0").Run(); err == nil {
		t.Error("migrate down --steps 0 did something")
	}
	if v, err := migrations.Version(t.Context(), db.DB); err != nil || v.Version != migrations.Latest() {
		t.Errorf("version %v, %v", v, err)
	}
	if out := chargeonce(t, db.DSN, "migrate", "down", "--all").succeed(t); !strings.HasPrefix(out, "version 0,") {
		t.Errorf("migrate down --all: %s", out)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	if out := chargeonce(t, "", "--version").succeed(t); out == "" {
		t.Error("--version printed nothing")
	}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}
