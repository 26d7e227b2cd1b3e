package torture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"syscall"
	"time"
)

// mysqld is a MySQL server of the run's own, started by deploy/mysql/local. That script detaches it, so a watchdog ends it in
// case this process is killed.
type mysqld struct {
	script, dir string
	env         []string
	guard       *exec.Cmd
	leash       io.WriteCloser // the watchdog's standard input: it acts when this ends without a word
}

// commandBound bounds one run of the script. A start after a kill recovers first.
const commandBound = 2 * time.Minute

// startMySQL makes a new server in dir, on a free port.
func startMySQL(ctx context.Context, script, dir string) (*mysqld, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("torture: %w", err)
	}
	m := &mysqld{script: script, dir: dir, env: []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "TMPDIR=" + os.TempDir(),
		"CHARGEONCE_MYSQL_DIR=" + dir, "CHARGEONCE_MYSQL_PORT=" + port, "CHARGEONCE_MYSQL_BUFFER_POOL=256M",
		// The unpacked programs are shared with everybody's server: nothing is downloaded twice.
		"CHARGEONCE_MYSQL_DIST=" + os.Getenv("CHARGEONCE_MYSQL_DIST"), "CHARGEONCE_MYSQL_SOURCE=" + os.Getenv("CHARGEONCE_MYSQL_SOURCE"),
	}}
	if err := m.watch(); err != nil {
		return nil, err
	}
	if err := m.up(ctx); err != nil {
		return nil, errors.Join(err, m.close(context.WithoutCancel(ctx)))
	}
	return m, nil
}

// watchdog reads a line. Without one its starter is dead, and so must the server be.
const watchdog = `read -r word && exit 0; pid=$(cat "$1/mysqld.pid") && kill -9 "$pid"; rm -rf "$1"`

// watch starts the watchdog, in a session of its own so that a terminal's ^C does not reach it.
func (m *mysqld) watch() (err error) {
	m.guard = exec.Command("bash", "-c", watchdog, "torture-watchdog", m.dir) //nolint:noctx // it outlives every context
	m.guard.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if m.leash, err = m.guard.StdinPipe(); err == nil {
		err = m.guard.Start()
	}
	if err != nil {
		return fmt.Errorf("torture: the watchdog of MySQL: %w", err)
	}
	return nil
}

// run runs a command of the script.
func (m *mysqld) run(ctx context.Context, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandBound)
	defer cancel()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, m.script, command)
	cmd.Env, cmd.Stderr, cmd.WaitDelay = m.env, &stderr, time.Second
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("torture: %s %s: %w: %s", m.script, command, err, bytes.TrimSpace(stderr.Bytes()))
	}
	return string(bytes.TrimSpace(out)), nil
}

// up starts the server, or finds it running, and returns when it can be used.
func (m *mysqld) up(ctx context.Context) error {
	_, err := m.run(ctx, "up")
	return err
}

func (m *mysqld) dsn(ctx context.Context) (string, error) { return m.run(ctx, "dsn") }

// pidInStatus finds the process in what `status` prints. A server in a container has none that can be killed.
var pidInStatus = regexp.MustCompile(` pid (\d+) `)

// kill ends the server at once (SIGKILL).
func (m *mysqld) kill(ctx context.Context) error {
	status, err := m.run(ctx, "status")
	if err != nil {
		return err
	}
	found := pidInStatus.FindStringSubmatch(status)
	if found == nil {
		return fmt.Errorf("torture: no process to kill: %s", status)
	}
	pid, err := strconv.Atoi(found[1])
	if err != nil {
		return fmt.Errorf("torture: %w", err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("torture: kill mysqld: %w", err)
	}
	return nil
}

// close ends the server, in order, and the watchdog. The data is of no use any more.
func (m *mysqld) close(ctx context.Context) error {
	_, err := m.run(ctx, "down")
	if err != nil {
		return errors.Join(err, m.leash.Close(), m.guard.Wait()) // the watchdog kills it
	}
	_, wordErr := io.WriteString(m.leash, "done\n")
	return errors.Join(wordErr, m.leash.Close(), m.guard.Wait(), os.RemoveAll(m.dir))
}
