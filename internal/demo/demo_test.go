package demo_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"chargeonce/internal/demo"
	"chargeonce/internal/mysql"
)

// bound is the most time that building and playing may take.
const bound = 5 * time.Minute

// build builds the three binaries into a folder of the test's own.
func build(t *testing.T, ctx context.Context) string {
	t.Helper()
	dir := t.TempDir()
	out, err := exec.CommandContext(ctx, "go", "build", "-o", dir+string(filepath.Separator),
		"chargeonce/cmd/chargeonce", "chargeonce/cmd/gateway-sim", "chargeonce/cmd/lab").CombinedOutput()
	if err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return dir
}

func TestDemoPlaysEveryScenarioAndLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	bin, tmp, dsn := build(t, ctx), t.TempDir(), mysql.NewEmptyTestDB(t)

	var out bytes.Buffer
	lab := exec.CommandContext(ctx, filepath.Join(bin, "lab"), "demo")
	lab.Env = append(os.Environ(), "MYSQL_DSN="+dsn, "TMPDIR="+tmp)
	lab.Stdout, lab.Stderr = &out, &out
	// Asked to end before it is killed, so that it takes its processes along.
	lab.Cancel = func() error { return lab.Process.Signal(os.Interrupt) }
	lab.WaitDelay = 30 * time.Second
	if err := lab.Run(); err != nil {
		t.Fatalf("lab demo: %v\n%s", err, out.String())
	}

	var list bytes.Buffer
	if err := demo.List(&list); err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`(?m)^\S+`).FindAllString(list.String(), -1)
	if len(names) < 9 {
		t.Errorf("only %d scenarios: %v", len(names), names)
	}
	for _, name := range names {
		if !regexp.MustCompile(`(?m)^ok    ` + regexp.QuoteMeta(name) + ` `).Match(out.Bytes()) {
			t.Errorf("%s is not in the summary as ok", name)
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Error("colours, though this is no terminal")
	}
	if t.Failed() {
		t.Log(out.String())
	}

	if left, err := os.ReadDir(tmp); err != nil || len(left) != 0 {
		t.Errorf("left in the temporary folder: %v, %v", left, err)
	}
	database := regexp.MustCompile(`chargeonce_demo_[0-9a-f]+`).FindString(out.String())
	if database == "" || databases(t, ctx, dsn, database) != 0 {
		t.Errorf("the database %q was left", database)
	}
}

func databases(t *testing.T, ctx context.Context, dsn, name string) (n int) {
	t.Helper()
	db, err := mysql.Open(dsn, mysql.Options{MaxOpen: 1})
	if err == nil {
		err = errors.Join(count(ctx, db, name, &n), db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func count(ctx context.Context, db *sql.DB, name string, n *int) error {
	return db.QueryRowContext(ctx, `SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = ?`, name).Scan(n)
}
