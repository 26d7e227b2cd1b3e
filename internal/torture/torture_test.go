package torture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"chargeonce/internal/mysql"
)

// bound is the most time that one attack may take, with its building, healing and checking.
const bound = 4 * time.Minute

// binaries are the paths of what is attacked.
type binaries struct{ chargeOnce, gatewaySim string }

// shipped are the binaries as they are shipped. Without the race detector, for the same reason.
var shipped binaries

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "torture")
	if err == nil {
		shipped = binaries{filepath.Join(dir, "chargeonce"), filepath.Join(dir, "gateway-sim")}
		err = build(dir+string(filepath.Separator), "chargeonce/cmd/chargeonce", "chargeonce/cmd/gateway-sim")
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

// build runs go build -o with the arguments.
func build(out string, args ...string) error {
	cmd := exec.Command("go", append([]string{"build", "-trimpath", "-o", out}, args...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %v: %w\n%s", args, err, text)
	}
	return nil
}

// attackOf runs an attack and returns what it found and told.
func attackOf(ctx context.Context, t *testing.T, cfg Config) (*Result, string) {
	t.Helper()
	var out bytes.Buffer
	cfg.Out = &out
	res, err := Run(ctx, cfg)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if err := res.Write(&out); err != nil {
		t.Fatal(err)
	}
	if res.Logs != "" {
		if err := os.RemoveAll(res.Logs); err != nil {
			t.Error(err)
		}
	}
	return res, out.String()
}

func TestEveryPromiseHoldsUnderAttack(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	script, err := mysql.FindScript()
	if err != nil {
		t.Fatal(err)
	}
	res, told := attackOf(ctx, t, Config{
		ChargeOnce: shipped.chargeOnce, GatewaySim: shipped.gatewaySim, MySQLScript: script,
		Duration: 10 * time.Second, Clients: 24, Seed: 20251130, Guard: true,
	})
	if !res.OK() {
		t.Error(told)
	}
	// An attack that did nothing proves nothing.
	if len(res.faults) < len(faultKinds)*3/4 || res.purchases < 50 || res.charges < 20 || res.takeOvers < 10 || res.looks < 20 {
		t.Errorf("%d faults, %d purchases, %d charges, %d take-overs, %d looks: too few\n%s",
			len(res.faults), res.purchases, res.charges, res.takeOvers, res.looks, told)
	}
}
