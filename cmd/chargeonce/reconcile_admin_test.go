package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/internal/mysql"
)

// A loop of passes serves its metrics, and ends on SIGTERM with exit status 0 whatever its passes found.
func TestReconcileLoopServesMetricsUntilSIGTERM(t *testing.T) {
	t.Parallel()
	p := chargeonce(t, mysql.NewTestDB(t).DSN, "reconcile", "--every", "50ms", "--jitter", "0s", "--output", "json",
		"--admin-listen", "127.0.0.1:0", "--psp-url", gatewaysim.Start(t, gatewaysim.Config{}).URL)
	p.Stderr = nil
	log, err := p.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	address := make(chan string, 1)
	read := make(chan error, 1)
	go func() {
		lines := bufio.NewScanner(log)
		for lines.Scan() {
			var line struct{ Msg, Admin string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "serving metrics" {
				address <- line.Admin
			}
		}
		read <- lines.Err()
	}()
	client := &http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	var admin string
	select {
	case admin = <-address:
	case err := <-read:
		t.Fatalf("it ended before it listened: %v, %v", err, p.Wait())
	}
	until(t, "metrics of passes", func() bool {
		resp, err := client.Get("http://" + admin + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		if closeErr := resp.Body.Close(); err != nil || closeErr != nil {
			t.Fatal(err, closeErr)
		}
		return strings.Contains(string(text), `chargeonce_reconcile_passes_total{outcome="clean"}`) &&
			strings.Contains(string(text), "chargeonce_reconcile_last_pass_timestamp_seconds ")
	})
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-read; err != nil {
		t.Error(err)
	}
	if err := p.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
}
