package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait of these tests.
const patience = 30 * time.Second

// binary is the built command.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "gateway-sim")
	if err == nil {
		binary = filepath.Join(dir, "gateway-sim")
		var out []byte
		if out, err = exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
			err = fmt.Errorf("%w\n%s", err, out)
		}
	}
	code := 1
	if err == nil {
		code = m.Run()
	}
	if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// process is a gateway-sim that runs.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	url  string
	log  func() string
	done chan struct{} // closed when it has ended; err is set then
	err  error
}

var address = regexp.MustCompile(`is listening" address=(\S+)`)

// run starts the binary on a free port and waits until it listens.
func run(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(binary, append([]string{"--listen", "127.0.0.1:0"}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: cmd, done: make(chan struct{})}
	var mu sync.Mutex
	var log strings.Builder
	p.log = func() string {
		mu.Lock()
		defer mu.Unlock()
		return log.String()
	}
	listening := make(chan string, 1)
	go func() {
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			mu.Lock()
			log.WriteString(lines.Text() + "\n")
			mu.Unlock()
			if found := address.FindStringSubmatch(lines.Text()); found != nil {
				listening <- found[1]
			}
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.signal(syscall.SIGKILL)
		<-p.done // killed: how it ended says nothing
	})
	select {
	case addr := <-listening:
		p.url = "http://" + addr
	case <-p.done:
		t.Fatalf("it ended: %v\n%s", p.err, p.log())
	case <-time.After(patience):
		t.Fatalf("it does not listen:\n%s", p.log())
	}
	return p
}

// signal sends sig, unless the process has ended.
func (p *process) signal(sig os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Errorf("%v: %v", sig, err)
	}
}

// wait waits for the end and returns how it was: nil for exit code 0.
func (p *process) wait() error {
	p.t.Helper()
	select {
	case <-p.done:
		return p.err
	case <-time.After(patience):
		p.t.Errorf("it does not end:\n%s", p.log())
		return nil
	}
}

func (p *process) kill() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	if err := p.wait(); err == nil {
		p.t.Error("a killed process has ended well")
	}
}

// do sends one request; an error leaves the status 0.
func (p *process) do(ctx context.Context, client *http.Client, method, path, body string, headers ...string) (status int, answer string) {
	req, err := http.NewRequestWithContext(ctx, method, p.url+path, strings.NewReader(body))
	if err != nil {
		p.t.Error(err)
		return 0, ""
	}
	req.GetBody = nil
	req.Header.Set("Authorization", "Bearer psp_demo_key")
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, ""
	}
	text, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return 0, ""
	}
	return resp.StatusCode, string(text)
}

func (p *process) charge(client *http.Client, key, token string) (status int, answer string) {
	body := fmt.Sprintf(`{"amount":100,"currency":"EUR","payment_method":%q}`, token)
	return p.do(p.t.Context(), client, "POST", "/charges", body, "Idempotency-Key: "+key)
}

// result looks a key up: "charged", "declined", …, or "unknown".
func (p *process) result(key string) (result, chargeID string) {
	p.t.Helper()
	status, answer := p.do(p.t.Context(), http.DefaultClient, "GET", "/charges?idempotency_key="+key, "")
	var got struct {
		Result string
		Charge struct{ ID, Status string }
	}
	if status == http.StatusNotFound {
		return "unknown", ""
	}
	if err := json.Unmarshal([]byte(answer), &got); err != nil || status != http.StatusOK {
		p.t.Fatalf("look-up of %s: %d %s (error %v)", key, status, answer, err)
	}
	return got.Result, got.Charge.ID
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	over := time.After(patience)
	for !holds() {
		select {
		case <-tick.C:
		case <-over:
			t.Fatalf("waited %v in vain: %s", patience, what)
		}
	}
}
