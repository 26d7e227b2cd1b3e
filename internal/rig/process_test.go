package rig_test

import (
	"bytes"
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"chargeonce/internal/rig"
)

// patience bounds every wait of these tests.
const patience = 30 * time.Second

// roleEnv makes the test binary one of the processes that the tests start.
const roleEnv = "RIG_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case "":
		os.Exit(runTests(m))
	case "ticker": // logs a line every few milliseconds until SIGTERM, and exits with 7
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		play(ctx, 7)
	case "stubborn": // the same, but SIGTERM does not end it
		signal.Ignore(syscall.SIGTERM)
		play(context.Background(), 0)
	case "failing":
		say("cannot go on")
		os.Exit(3)
	}
}

// say writes a line to the process's log, or ends it: nobody would see what it does.
func say(line string) {
	if _, err := os.Stdout.WriteString(line + "\n"); err != nil {
		os.Exit(9)
	}
}

// play ticks until ctx ends, and then exits with code.
func play(ctx context.Context, code int) {
	say("HOME is " + os.Getenv("HOME"))
	tick := time.NewTicker(2 * time.Millisecond)
	for {
		select {
		case <-tick.C:
			say("tick")
		case <-ctx.Done():
			os.Exit(code)
		}
	}
}

// startRole starts the test binary in a role.
func startRole(t *testing.T, role string) *rig.Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := rig.Start(rig.Spec{Name: role, Path: self, Env: []string{roleEnv + "=" + role}, LogFile: filepath.Join(t.TempDir(), "log")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// logs waits until the process has logged something after the offset.
func logs(t *testing.T, p *rig.Process, from int64) {
	t.Helper()
	err := p.Await(within(t, patience), "a line", func(context.Context) (bool, error) {
		text, err := p.Log(from)
		return bytes.Contains(text, []byte("tick")), err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestStopEndsAProcessAndReportsItsExitCode(t *testing.T) {
	t.Parallel()
	for name, freeze := range map[string]bool{"running": false, "frozen": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startRole(t, "ticker")
			logs(t, p, 0)
			if freeze {
				if err := p.Freeze(); err != nil {
					t.Fatal(err)
				}
			}
			if code, err := p.Stop(within(t, patience)); code != 7 || err != nil {
				t.Errorf("exit code %d, %v; want 7", code, err)
			}
			if code, err := p.Stop(within(t, patience)); code != 7 || err != nil {
				t.Errorf("stopped again: exit code %d, %v; want 7", code, err)
			}
		})
	}
}

func TestStopKillsAProcessThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	p := startRole(t, "stubborn")
	logs(t, p, 0)
	if code, err := p.Stop(within(t, 50*time.Millisecond)); code != -1 || err == nil {
		t.Errorf("exit code %d, %v; want an error", code, err)
	}
	select {
	case <-p.Done():
	default:
		t.Error("it still runs")
	}
}

func TestFrozenProcessDoesNothingUntilItIsThawed(t *testing.T) {
	t.Parallel()
	p := startRole(t, "ticker")
	logs(t, p, 0)
	if err := p.Freeze(); err != nil {
		t.Fatal(err)
	}
	// A signal is asynchronous: the process is frozen once its log stands still.
	var last int64
	still := 0
	err := p.Await(within(t, patience), "standstill", func(context.Context) (bool, error) {
		n, err := p.LogSize()
		if n == last {
			still++
		} else {
			still = 0
		}
		last = n
		return still == 20, err // 100 ms, in which it would log 50 times
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Thaw(); err != nil {
		t.Fatal(err)
	}
	logs(t, p, last)
}

func TestKillEndsAFrozenProcessAndIsHarmlessLater(t *testing.T) {
	t.Parallel()
	p := startRole(t, "stubborn")
	if err := p.Freeze(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Freeze(); err == nil {
		t.Error("a signal to a process that has ended is no error")
	}
}

func TestProcessInheritsNothingAndHasAGroupOfItsOwn(t *testing.T) {
	t.Parallel()
	p := startRole(t, "ticker")
	logs(t, p, 0)
	text, err := p.Log(0)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(text), "HOME is \n") {
		t.Errorf("it logged %.40q", text)
	}
	group, err := syscall.Getpgid(p.PID())
	if err != nil || group != p.PID() {
		t.Errorf("its group is %d, %v; want its own, %d", group, err, p.PID())
	}
}

func TestAwaitFailsWhenTheProcessEndsAndShowsItsLog(t *testing.T) {
	t.Parallel()
	p := startRole(t, "failing")
	err := p.Await(within(t, patience), "godot", func(context.Context) (bool, error) { return false, nil })
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "cannot go on") {
		t.Errorf("got %v, want the exit status and the log", err)
	}
}

func TestAwaitIsBounded(t *testing.T) {
	t.Parallel()
	p := startRole(t, "ticker")
	err := p.Await(within(t, 20*time.Millisecond), "godot", func(context.Context) (bool, error) { return false, nil })
	if err == nil || !strings.Contains(err.Error(), context.DeadlineExceeded.Error()) {
		t.Errorf("got %v, want the deadline", err)
	}
}
