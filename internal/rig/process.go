package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// endPatience bounds the wait for a process that was killed.
const endPatience = 10 * time.Second

// Spec is a process to start.
type Spec struct {
	// Name is what errors call it.
	Name string
	// Path is the binary. Env is all of its environment; nothing is inherited.
	Path string
	Args []string
	Env  []string
	// LogFile gets its standard output and error, behind what is in the file already.
	LogFile string
}

// Process is a process that [Start] started. Signals go to it alone, and to nobody once it has ended, even if its process id
// is used again.
type Process struct {
	spec   Spec
	cmd    *exec.Cmd
	log    *os.File
	logged int64         // size of the log file when it started
	done   chan struct{} // closed when it has ended; err is set then
	err    error
}

// Start starts a process in a process group of its own, so that a terminal's ^C reaches its starter alone, who then ends it
// in order. Where the system can (Linux), it also ends when its starter is killed.
func Start(spec Spec) (*Process, error) {
	log, err := os.OpenFile(spec.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("rig: log of %s: %w", spec.Name, err)
	}
	p := &Process{spec: spec, log: log, done: make(chan struct{})}
	info, err := log.Stat()
	if err == nil {
		p.logged = info.Size()
		// Not CommandContext: the process outlives the call that starts it, and is ended by Stop, Kill or Cleanup.
		p.cmd = exec.Command(spec.Path, spec.Args...) //nolint:noctx // see above
		p.cmd.Env = append([]string{}, spec.Env...)   // not nil, which would inherit
		p.cmd.Stdout, p.cmd.Stderr = log, log         // the file itself: nobody has to copy while the process is frozen
		p.cmd.SysProcAttr = attributes()
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("rig: start %s: %w", spec.Name, err), log.Close())
	}
	go func() {
		defer close(p.done)
		p.err = errors.Join(p.cmd.Wait(), log.Close())
	}()
	return p, nil
}

// PID is the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Freeze stops the process where it is (SIGSTOP): it keeps its connections and locks and does nothing.
func (p *Process) Freeze() error { return p.signal(syscall.SIGSTOP) }

// Thaw lets a frozen process go on (SIGCONT).
func (p *Process) Thaw() error { return p.signal(syscall.SIGCONT) }

// Kill ends the process at once (SIGKILL), frozen or not, and waits until it has ended. One that has ended is no error.
func (p *Process) Kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	timer := time.NewTimer(endPatience)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		return fmt.Errorf("rig: %s has not ended %s after SIGKILL", p.spec.Name, endPatience)
	}
}

// Stop asks the process to end (SIGTERM; a frozen one is thawed first) and returns its exit code. One that has not ended when
// ctx does is killed, which is an error. The exit code of a process that a signal ended is -1.
func (p *Process) Stop(ctx context.Context) (code int, err error) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT} {
		if err := p.signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return -1, err
		}
	}
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-ctx.Done():
		err := fmt.Errorf("rig: %s has not ended after SIGTERM: %w%s", p.spec.Name, ctx.Err(), p.tail())
		return -1, errors.Join(err, p.Kill())
	}
}

func (p *Process) signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("rig: %s to %s: %w", sig, p.spec.Name, err)
	}
	return nil
}

// poll is how often a condition is looked at.
const poll = 5 * time.Millisecond

// Await calls check until it says true, or fails, or ctx ends. It fails at once when the process ends, with the last lines of
// its log.
func (p *Process) Await(ctx context.Context, what string, check func(context.Context) (bool, error)) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		ok, err := check(ctx)
		if err != nil {
			return fmt.Errorf("rig: %s: %s: %w", p.spec.Name, what, err)
		}
		if ok {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.done:
			return fmt.Errorf("rig: %s: waiting for %s: it ended: %w%s", p.spec.Name, what, orExit(p.err), p.tail())
		case <-ctx.Done():
			return fmt.Errorf("rig: %s: waiting for %s: %w%s", p.spec.Name, what, ctx.Err(), p.tail())
		}
	}
}

var errExitZero = errors.New("exit status 0")

func orExit(err error) error {
	if err == nil {
		return errExitZero
	}
	return err
}

// LogSize is how much the process, and those that had the log file before it, have logged so far, in bytes. See [Process.Log].
func (p *Process) LogSize() (int64, error) {
	info, err := os.Stat(p.spec.LogFile)
	if err != nil {
		return 0, fmt.Errorf("rig: log of %s: %w", p.spec.Name, err)
	}
	return info.Size(), nil
}

// Log returns what was logged from an offset on, in whole lines.
func (p *Process) Log(from int64) ([]byte, error) {
	text, err := readFrom(p.spec.LogFile, from)
	if err != nil {
		return nil, fmt.Errorf("rig: log of %s: %w", p.spec.Name, err)
	}
	return text[:bytes.LastIndexByte(text, '\n')+1], nil
}

func readFrom(path string, offset int64) (text []byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(file)
}

// tail is the end of the log for an error's text.
func (p *Process) tail() string {
	const lines = 15
	text, err := p.Log(p.logged)
	if err != nil {
		return "; " + err.Error()
	}
	all := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	last := all[max(0, len(all)-lines):]
	return fmt.Sprintf("; the end of its log (%s):\n%s", p.spec.LogFile, bytes.Join(last, []byte("\n")))
}
