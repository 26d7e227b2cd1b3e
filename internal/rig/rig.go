package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// What the processes of a rig prove themselves to one another with. They listen on the loopback interface, and these are the
// simulator's public defaults.
const (
	PSPKey        = "psp_demo_key"
	WebhookSecret = "whsec_Zm9yIGRlbW9uc3RyYXRpb25zIG9ubHksIG5vIHNlY3JldA=="
)

// Config is what a [Rig] works with. GatewaySim and Dir are required.
type Config struct {
	// ChargeOnce and GatewaySim are the binaries.
	ChargeOnce, GatewaySim string
	// DSN is the service's database; see [NewDatabase]. A rig without ChargeOnce or without DSN runs the PSP alone.
	DSN string
	// Dir gets logs, address files and the PSP's file. It must exist.
	Dir string
	// Patience bounds each wait for a process to be ready, and each command (default 30 s).
	Patience time.Duration
}

// Rig starts processes and knows them all, so that [Rig.Cleanup] leaves none. It is safe for use by many goroutines.
type Rig struct {
	cfg  Config
	http *http.Client

	mu     sync.Mutex
	closed bool
	all    []*Process
}

// New makes a rig that runs nothing yet.
func New(cfg Config) (*Rig, error) {
	if cfg.GatewaySim == "" || cfg.Dir == "" {
		return nil, errors.New("rig: Config needs GatewaySim and Dir")
	}
	if cfg.Patience == 0 {
		cfg.Patience = 30 * time.Second
	}
	return &Rig{cfg: cfg, http: newHTTPClient()}, nil
}

// requestTimeout bounds one request to an admin page or a probe.
const requestTimeout = 5 * time.Second

// newHTTPClient makes a client without kept connections: a process that was killed or frozen would leave broken ones.
func newHTTPClient() *http.Client {
	return &http.Client{Timeout: requestTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
}

// ErrNoService: the rig has no ChargeOnce or no DSN, and runs the PSP alone.
var ErrNoService = errors.New("rig: Config needs ChargeOnce and DSN to run the service")

// ErrClosed: the rig was cleaned up and starts nothing more.
var ErrClosed = errors.New("rig: cleaned up")

func (r *Rig) start(spec Spec) (*Process, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, ErrClosed
	}
	p, err := Start(spec)
	if err != nil {
		return nil, err
	}
	r.all = append(r.all, p)
	return p, nil
}

// Cleanup kills what still runs, the newest first, and lets nothing start any more. It may be called again, and from anywhere.
func (r *Rig) Cleanup() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	var errs []error
	for _, p := range slices.Backward(r.all) {
		errs = append(errs, p.Kill())
	}
	r.all = nil
	return errors.Join(errs...)
}

// LogFile is where the process of that name logs.
func (r *Rig) LogFile(name string) string { return filepath.Join(r.cfg.Dir, name+".log") }

func (r *Rig) hasService() bool { return r.cfg.ChargeOnce != "" && r.cfg.DSN != "" }

// env is the environment of chargeonce's commands: all that they need, and nothing of ours.
func (r *Rig) env(pspURL string) []string {
	return []string{
		"CHARGEONCE_MYSQL_DSN=" + r.cfg.DSN,
		"CHARGEONCE_LOG_FORMAT=json",
		"CHARGEONCE_PSP_URL=" + pspURL,
		"CHARGEONCE_PSP_API_KEY=" + PSPKey,
		"CHARGEONCE_WEBHOOK_SECRETS=" + WebhookSecret,
	}
}

// Command runs one command of chargeonce to its end, and returns what it printed and its exit code. psp may be nil for
// commands that need none. A command that could not be run, or took too long, is an error; one that failed is not. What it
// logged is in the file that [Rig.LogFile] names for "commands".
func (r *Rig) Command(ctx context.Context, psp *PSP, args ...string) (stdout string, code int, err error) {
	stdout, _, code, err = r.command(ctx, psp, args...)
	return stdout, code, err
}

func (r *Rig) command(ctx context.Context, psp *PSP, args ...string) (stdout, stderr string, code int, err error) {
	if !r.hasService() {
		return "", "", -1, ErrNoService
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Patience)
	defer cancel()
	name := "chargeonce " + strings.Join(args, " ")
	var url string
	if psp != nil {
		url = psp.URL
	}
	var out, log bytes.Buffer
	cmd := exec.CommandContext(ctx, r.cfg.ChargeOnce, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = r.env(url), &out, &log, attributes()
	cmd.WaitDelay = time.Second
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return "", "", -1, fmt.Errorf("rig: %s: %w", name, ctx.Err())
	case err != nil && !errors.As(err, &exit):
		return "", "", -1, fmt.Errorf("rig: %s: %w", name, err)
	}
	code = cmd.ProcessState.ExitCode()
	if err := r.keep(name, code, log.Bytes()); err != nil {
		return "", "", -1, err
	}
	return out.String(), log.String(), code, nil
}

// keep appends what a command logged to a file that all commands share.
func (r *Rig) keep(name string, code int, log []byte) (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	file, err := os.OpenFile(r.LogFile("commands"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("rig: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	_, err = fmt.Fprintf(file, "$ %s\n%sexit status %d\n", name, log, code)
	return err
}

// Must is [Rig.Command] for a command that has to succeed: it is an error, with what was logged, if it does not.
func (r *Rig) Must(ctx context.Context, psp *PSP, args ...string) (stdout string, err error) {
	stdout, stderr, code, err := r.command(ctx, psp, args...)
	if err == nil && code != 0 {
		err = fmt.Errorf("rig: chargeonce %s: exit status %d:\n%s", strings.Join(args, " "), code, stderr)
	}
	return stdout, err
}

// Migrate brings the database's schema up.
func (r *Rig) Migrate(ctx context.Context) error {
	_, err := r.Must(ctx, nil, "migrate", "up")
	return err
}

// APIKey makes an API key for a user.
func (r *Rig) APIKey(ctx context.Context, user int64) (string, error) {
	out, err := r.Must(ctx, nil, "apikey", "create", "--user", fmt.Sprint(user))
	return strings.TrimSpace(out), err
}
