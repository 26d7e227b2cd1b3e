package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// binary is the built command.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "lab")
	if err == nil {
		binary = filepath.Join(dir, "lab")
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

// lab runs the command to its end.
func lab(t *testing.T, args ...string) (output string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("lab %v: %v", args, err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// installation is a payment service and its PSP, as far as the demo's first scenario looks at them. Its fault is one of those
// that the demo must find.
type installation struct {
	fault string

	mu      sync.Mutex
	answers map[string]string // by idempotency key
	orders  []string          // one per charge
}

func (i *installation) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /payments", i.pay)
	mux.HandleFunc("GET /payments", func(w http.ResponseWriter, _ *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		rows := []string{}
		for _, answer := range i.answers {
			rows = append(rows, answer)
		}
		if i.fault == "a second row" {
			rows = append(rows, rows...)
		}
		send(w, http.StatusOK, `{"payments":[`+strings.Join(rows, ",")+`]}`)
	})
	mux.HandleFunc("GET /admin/ledger", func(w http.ResponseWriter, _ *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		var lines strings.Builder
		for n, order := range i.orders {
			fmt.Fprintf(&lines, `{"id":"ch_%d","metadata":{"order_id":%q}}`+"\n", n, order)
		}
		send(w, http.StatusOK, lines.String())
	})
	return mux
}

func (i *installation) pay(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	var req struct {
		OrderID string `json:"order_id"`
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	key := r.Header.Get("Idempotency-Key")
	answer, known := i.answers[key]
	if !known || i.fault == "a second charge" {
		i.orders = append(i.orders, req.OrderID)
	}
	if !known || i.fault == "another payment" {
		answer = fmt.Sprintf(`{"id":"pay_%d"}`, len(i.answers)+1)
	}
	if known && i.fault == "another payment" {
		key += " again"
	}
	i.answers[key] = answer
	if known && i.fault != "no sign of a replay" {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	send(w, http.StatusCreated, answer)
}

func send(w http.ResponseWriter, code int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if _, err := io.WriteString(w, body); err != nil {
		panic(http.ErrAbortHandler)
	}
}

func TestExitStatusTellsWhetherAllWentAsItMust(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		code int
		says string
	}{
		"":                    {0, "1 of 1 as they must be"},
		"a second charge":     {1, "charges at the PSP: 2 (expected 1)"},
		"a second row":        {1, "payment rows: 2 (expected 1)"},
		"another payment":     {1, "payments that they name: 2 (expected 1)"},
		"no sign of a replay": {1, "answers: 201 | 201 (expected 201 | 201 replayed)"},
	}
	for fault, tt := range tests {
		t.Run("fault: "+fault, func(t *testing.T) {
			t.Parallel()
			i := &installation{fault: fault, answers: map[string]string{}}
			server := httptest.NewServer(i.handler())
			t.Cleanup(server.Close)
			out, code := lab(t, "demo", "--only", "happy-path", "--url", server.URL, "--api-key", "k", "--psp-url", server.URL)
			if code != tt.code || !strings.Contains(out, tt.says) {
				t.Errorf("exit status %d, want %d and %q:\n%s", code, tt.code, tt.says, out)
			}
		})
	}
}

func TestInstallationThatRunsIsPlayedOnOnlyAsFarAsItCanBe(t *testing.T) {
	t.Parallel()
	i := &installation{answers: map[string]string{}}
	server := httptest.NewServer(i.handler())
	t.Cleanup(server.Close)
	out, code := lab(t, "demo", "--only", "server-killed", "--url", server.URL, "--api-key", "k")
	if code != 1 || !strings.Contains(out, "not played: it starts and kills servers of its own") || len(i.orders) != 0 {
		t.Errorf("exit status %d:\n%s", code, out)
	}
}

func TestWhatIsMissingIsSaid(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		args []string
		says string
	}{
		"no binaries beside it": {[]string{"demo"}, "--"},
		"no such scenario":      {[]string{"demo", "--only", "nope", "--url", "http://127.0.0.1:1", "--api-key", "k"}, `no scenario "nope"`},
		"no API key":            {[]string{"demo", "--url", "http://127.0.0.1:1"}, "--api-key"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if out, code := lab(t, tt.args...); code != 1 || !strings.Contains(out, tt.says) {
				t.Errorf("exit status %d, want 1 and %q:\n%s", code, tt.says, out)
			}
		})
	}
}

func TestListNamesTheScenarios(t *testing.T) {
	t.Parallel()
	out, code := lab(t, "demo", "--list")
	if code != 0 || !strings.HasPrefix(out, "happy-path ") || bytes.Count([]byte(out), []byte("\n")) < 9 {
		t.Errorf("exit status %d:\n%s", code, out)
	}
}
