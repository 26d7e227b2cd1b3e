package rig_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chargeonce/internal/mysql"
	"chargeonce/internal/rig"
)

// binaries is the folder of the built commands.
var binaries string

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "rig")
	if err == nil {
		binaries = dir
		err = build(dir)
	}
	code := 1
	if err == nil {
		code = m.Run()
	}
	if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return code
}

func build(dir string) error {
	out, err := exec.Command("go", "build", "-o", dir+"/", "chargeonce/cmd/chargeonce", "chargeonce/cmd/gateway-sim").CombinedOutput()
	if err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return nil
}

func newRig(t *testing.T, dsn string) *rig.Rig {
	t.Helper()
	r, err := rig.New(rig.Config{
		ChargeOnce: filepath.Join(binaries, "chargeonce"), GatewaySim: filepath.Join(binaries, "gateway-sim"),
		DSN: dsn, Dir: t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Cleanup(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func ready(t *testing.T, url string, patience time.Duration) bool {
	t.Helper()
	c := http.Client{Timeout: patience}
	resp, err := c.Get(url)
	if err != nil {
		return false
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	return resp.StatusCode == http.StatusOK
}

func TestServerComesBackOnItsAddressesAfterAKill(t *testing.T) {
	t.Parallel()
	ctx := within(t, 2*patience)
	r := newRig(t, mysql.NewEmptyTestDB(t))
	if err := r.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	if key, err := r.APIKey(ctx, 7); err != nil || !strings.HasPrefix(key, "sk_") {
		t.Fatalf("API key %q, %v", key, err)
	}
	psp, err := r.StartPSP(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.StartServer(ctx, "one", psp.PSP)
	if err != nil {
		t.Fatal(err)
	}

	if err := s.Restart(ctx); err == nil {
		t.Error("a running server was started again")
	}
	before := s.Addrs
	if err := errors.Join(s.Freeze(), psp.Kill()); err != nil {
		t.Fatal(err)
	}
	if ready(t, s.URL()+"/healthz", 200*time.Millisecond) {
		t.Error("a frozen server answers")
	}
	if err := s.Thaw(); err != nil {
		t.Fatal(err)
	}
	if !ready(t, s.URL()+"/readyz", patience) {
		t.Error("a thawed server does not answer")
	}
	if err := errors.Join(s.Kill(), s.Restart(ctx), psp.Restart(ctx)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, s.Addrs); diff != "" {
		t.Errorf("addresses after the restart (-before +now):\n%s", diff)
	}
	if _, err := psp.Charges(ctx); err != nil {
		t.Error(err)
	}
	if code, err := s.Stop(ctx); code != 0 || err != nil {
		t.Errorf("stopped with exit code %d, %v; want 0", code, err)
	}
}

func TestServerThatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	ctx := within(t, 2*patience)
	r := newRig(t, mysql.NewEmptyTestDB(t)) // without its schema
	_, err := r.StartServer(ctx, "one", rig.NewPSP("http://127.0.0.1:1"))
	if err == nil || !strings.Contains(err.Error(), "schema") {
		t.Errorf("got %v, want what its log says of the schema", err)
	}
}

func TestCommandThatFailsIsNoErrorAndMustIsOne(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	r := newRig(t, mysql.NewEmptyTestDB(t))
	if _, code, err := r.Command(ctx, nil, "migrate", "down", "--steps", "0"); code == 0 || err != nil {
		t.Errorf("exit code %d, %v; want a code and no error", code, err)
	}
	if _, err := r.Must(ctx, nil, "migrate", "down", "--steps", "0"); err == nil {
		t.Error("Must takes a failure")
	}
	text, err := os.ReadFile(r.LogFile("commands"))
	if err != nil || bytes.Count(text, []byte("$ chargeonce migrate down --steps 0\n")) != 2 {
		t.Errorf("the log of commands: %v\n%s", err, text)
	}
}

func TestCleanupKillsAllAndLetsNothingStart(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	r := newRig(t, "unused")
	psp, err := r.StartPSP(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := r.Cleanup(); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-psp.Done():
	default:
		t.Error("the PSP still runs")
	}
	if err := psp.Restart(ctx); !errors.Is(err, rig.ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
}

func TestDatabaseIsGoneAfterDrop(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	server := mysql.NewEmptyTestDB(t)
	d, err := rig.NewDatabase(ctx, server, "test_rig_")
	if err != nil {
		t.Fatal(err)
	}
	count := func() (n int) {
		db, err := mysql.Open(server, mysql.Options{MaxOpen: 1})
		if err == nil {
			err = errors.Join(db.QueryRowContext(ctx, `SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = ?`, d.Name).Scan(&n), db.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	var name string
	if err := d.QueryRowContext(ctx, `SELECT DATABASE()`).Scan(&name); err != nil || name != d.Name || count() != 1 {
		t.Errorf("connected to %q, %v; want %q", name, err, d.Name)
	}
	if err := d.Drop(ctx); err != nil || count() != 0 {
		t.Errorf("drop: %v, %d left", err, count())
	}
}

func TestFindMySQLTakesTheEnvironmentFirst(t *testing.T) {
	t.Setenv("MYSQL_DSN", "u:p@tcp(db.test:3306)/x")
	if dsn, err := rig.FindMySQL(context.Background()); dsn != "u:p@tcp(db.test:3306)/x" || err != nil {
		t.Errorf("got %q, %v", dsn, err)
	}
}

func TestFindMySQLSaysWhatIsMissing(t *testing.T) {
	t.Setenv("MYSQL_DSN", "")
	t.Chdir(t.TempDir())
	if _, err := rig.FindMySQL(context.Background()); err == nil || !strings.Contains(err.Error(), "deploy/mysql/local") {
		t.Errorf("got %v, want what to do", err)
	}
}

func TestRigWithoutDatabaseRunsThePSPAlone(t *testing.T) {
	t.Parallel()
	r, err := rig.New(rig.Config{GatewaySim: filepath.Join(binaries, "gateway-sim"), Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Cleanup(); err != nil {
			t.Error(err)
		}
	})
	psp, err := r.StartPSP(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := psp.Stats(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := r.StartServer(t.Context(), "server", psp.PSP); !errors.Is(err, rig.ErrNoService) {
		t.Errorf("a server: %v", err)
	}
	if err := r.Migrate(t.Context()); !errors.Is(err, rig.ErrNoService) {
		t.Errorf("a command: %v", err)
	}
}
