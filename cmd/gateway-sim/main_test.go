package main

import (
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// working begins a charge that works for an hour, and waits until it does. The channel gives its status, 0 for none.
func working(t *testing.T, p *process, key string) <-chan int {
	t.Helper()
	status := make(chan int, 1)
	go func() {
		got, _ := p.charge(http.DefaultClient, key, "tok_visa")
		status <- got
	}()
	eventually(t, "the charge is worked on", func() bool { result, _ := p.result(key); return result == "processing" })
	return status
}

func TestSIGTERMCutsHungRequestsAndEndsWell(t *testing.T) {
	t.Parallel()
	p := run(t, nil, "--file", t.TempDir()+"/psp.db", "--shutdown-grace", "1h")
	faults := `{"rules":[{"fault":"hang","match":{"method":"POST"}}]}`
	if status, answer := p.do(t.Context(), http.DefaultClient, "PUT", "/admin/faults", faults); status != http.StatusOK {
		t.Fatalf("answer %d %s", status, answer)
	}
	hung := working(t, p, "k")
	p.signal(syscall.SIGTERM)
	if got := <-hung; got != 0 {
		t.Errorf("the hung request was answered %d", got)
	}
	if err := p.wait(); err != nil {
		t.Errorf("it ended with %v\n%s", err, p.log())
	}
}

func TestSIGTERMIsBoundedByTheGrace(t *testing.T) {
	t.Parallel()
	p := run(t, nil, "--file", t.TempDir()+"/psp.db", "--latency", "fixed 1h", "--shutdown-grace", "100ms")
	cut := working(t, p, "k")
	p.signal(syscall.SIGTERM)
	if got := <-cut; got == http.StatusCreated {
		t.Error("the request that was cut was charged")
	}
	if err := p.wait(); err != nil {
		t.Errorf("it ended with %v\n%s", err, p.log())
	}
}

func TestSecondSIGTERMEndsAtOnce(t *testing.T) {
	t.Parallel()
	p := run(t, nil, "--file", t.TempDir()+"/psp.db", "--latency", "fixed 1h", "--shutdown-grace", "1h")
	cut := working(t, p, "k")
	p.signal(syscall.SIGTERM)
	eventually(t, "it no longer accepts", func() bool {
		status, _ := p.do(t.Context(), &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, "GET", "/healthz", "")
		return status == 0
	})
	eventually(t, "the second signal ends it", func() bool {
		p.signal(syscall.SIGTERM)
		select {
		case <-p.done:
			return true
		default:
			return false
		}
	})
	if p.err == nil || !strings.Contains(p.err.Error(), "terminated") {
		t.Errorf("it ended with %v", p.err)
	}
	if got := <-cut; got != 0 {
		t.Errorf("the request was answered %d", got)
	}
}

func TestDemoSecretsAreWarnedOf(t *testing.T) {
	t.Parallel()
	const apiKey, secret = "another-key", "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	demo := run(t, nil, "--file", t.TempDir()+"/psp.db")
	own := run(t, []string{"GATEWAY_SIM_API_KEY=" + apiKey, "GATEWAY_SIM_WEBHOOK_SECRETS=" + secret}, "--file", t.TempDir()+"/psp.db")
	for _, warning := range []string{"DEMO API KEY", "DEMO WEBHOOK SECRET"} {
		if !strings.Contains(demo.log(), warning) {
			t.Errorf("the demo does not warn of %q:\n%s", warning, demo.log())
		}
		if strings.Contains(own.log(), warning) {
			t.Errorf("it warns of %q for nothing:\n%s", warning, own.log())
		}
	}
	if strings.Contains(own.log(), apiKey) || strings.Contains(own.log(), secret) {
		t.Errorf("a secret is in the log:\n%s", own.log())
	}
	if status, _ := own.charge(http.DefaultClient, "k", "tok_visa"); status != http.StatusUnauthorized {
		t.Errorf("the demo key is answered %d", status)
	}
	status, _ := own.do(t.Context(), http.DefaultClient, "GET", "/charges", "", "Authorization: Bearer "+apiKey)
	if status != http.StatusOK {
		t.Errorf("its own key is answered %d", status)
	}
}

func TestFaultsFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := dir + "/" + name
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	p := run(t, nil, "--file", dir+"/psp.db", "--faults", write("good", `{"rules":[{"fault":"error","status":502}]}`))
	if status, _ := p.charge(http.DefaultClient, "k", "tok_visa"); status != http.StatusBadGateway {
		t.Errorf("answer %d, want 502", status)
	}

	cfg, err := config(flags{Faults: write("bad", `{"rules":[{"fault":"error","after":"soon"}]}`)}, nil)
	if err == nil || !strings.Contains(err.Error(), "rules[0].after") {
		t.Errorf("bad faults give %+v, error %v", cfg.Faults, err)
	}
}

func TestTwoProcessesCannotShareAFile(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/psp.db"
	run(t, nil, "--file", file)
	began := time.Now()
	cfg, err := config(flags{File: file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := serve(t.Context(), cfg, "127.0.0.1:0"); err == nil {
		t.Error("the second one opened the file")
	}
	if time.Since(began) > patience {
		t.Errorf("it took %v to refuse", time.Since(began))
	}
}
