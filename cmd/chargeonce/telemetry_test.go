package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/prototext"

	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/internal/mysql"
	"chargeonce/internal/server"
)

// collectorServer is an OTLP collector that keeps what it is sent, as text.
type collectorServer struct {
	collector.UnimplementedTraceServiceServer
	mu   sync.Mutex
	text string
}

func (c *collectorServer) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text += prototext.Format(r)
	return &collector.ExportTraceServiceResponse{}, nil
}

func (c *collectorServer) got() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(strings.Fields(c.text), " ") // the spacing of the format varies
}

func startCollector(t *testing.T) (c *collectorServer, endpoint string) {
	t.Helper()
	lis, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c = &collectorServer{}
	s := grpc.NewServer()
	collector.RegisterTraceServiceServer(s, c)
	done := make(chan error, 1)
	go func() { done <- s.Serve(lis) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
	return c, "http://" + lis.Addr().String()
}

// A server sends its spans where the standard variable says, the last of them at its end, and tells how its database stands.
func TestServeTellsACollectorAndPrometheus(t *testing.T) {
	t.Parallel()
	spans, endpoint := startCollector(t)
	addrFile := filepath.Join(t.TempDir(), "addrs.json")
	serve := chargeonce(t, mysql.NewTestDB(t).DSN, "serve", "--psp-url", gatewaysim.Start(t, gatewaysim.Config{}).URL, "--trace-sample-ratio", "1",
		"--grpc-listen", "127.0.0.1:0", "--rest-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--addr-file", addrFile)
	serve.Env = append(serve.Env, "OTEL_EXPORTER_OTLP_ENDPOINT="+endpoint)
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	wait := sync.OnceValue(serve.Wait)
	t.Cleanup(func() {
		if err := serve.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Error(err)
		}
		if err := wait(); err != nil {
			t.Logf("serve: %v", err)
		}
	})
	var addrs server.Addrs
	until(t, "the address file", func() bool {
		text, err := os.ReadFile(addrFile)
		return err == nil && json.Unmarshal(text, &addrs) == nil
	})
	resp := post(t, "http://"+addrs.REST+"/payments", "sk_no_such_key", "a-key")
	traceID := resp.Header.Get("X-Trace-Id")
	if resp.StatusCode != http.StatusUnauthorized || traceID == "" {
		t.Errorf("%s, trace %q", resp.Status, traceID)
	}
	metrics := fetch(t, "http://"+addrs.Admin+"/metrics")
	for _, want := range []string{"chargeonce_keys_parked 0\n", `db_client_connection_max{db_client_connection_pool_name=`, `chargeonce_webhook_inbox{state="dead"} 0`,
		`reason="UNAUTHENTICATED",le="1"} 1`, `target_info{`, `service_name="chargeonce"`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("/metrics has no %s:\n%s", want, metrics)
		}
	}
	if err := serve.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := wait(); err != nil {
		t.Fatalf("after SIGTERM: %v\n%s", err, serve.stderr.String())
	}
	for _, want := range []string{`"POST /payments"`, `"chargeonce.reason"`, `string_value: "chargeonce"`} {
		if !strings.Contains(spans.got(), want) {
			t.Errorf("the collector got no %s:\n%s", want, spans.got())
		}
	}
	if !strings.Contains(serve.stderr.String(), traceID) {
		t.Errorf("the log has no trace %s:\n%s", traceID, serve.stderr.String())
	}
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	client := &http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return string(text)
}
