package bench

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// chargeonce and gatewaySim are the built binaries.
var chargeonce, gatewaySim string

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "bench")
	if err == nil {
		chargeonce, gatewaySim = filepath.Join(dir, "chargeonce"), filepath.Join(dir, "gateway-sim")
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
