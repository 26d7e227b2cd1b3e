package gatewaysim

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"sync"
	"time"
)

// TB is what [Start] needs of a *testing.T; this package does not import testing, which would put its flags into binaries.
type TB interface {
	Helper()
	TempDir() string
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Running is a [Sim] that serves on a port of the loopback interface.
type Running struct {
	*Sim
	// URL is where it serves, without a slash at the end. APIKey is the one it wants.
	URL, APIKey string

	stop func() error
}

// Start serves a Sim on a free port of 127.0.0.1 until the test ends. An empty Path becomes a new file, an empty APIKey
// [DemoAPIKey], a zero ShutdownGrace half a second.
func Start(t TB, cfg Config) *Running {
	t.Helper()
	if cfg.Path == "" {
		cfg.Path = filepath.Join(t.TempDir(), "gateway-sim.db")
	}
	setDefault(&cfg.APIKey, DemoAPIKey)
	setDefault(&cfg.ShutdownGrace, time.Second/2)
	sim, err := Open(cfg)
	if err != nil {
		t.Fatalf("start gateway-sim: %v", err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("start gateway-sim: %v", errors.Join(err, sim.Close()))
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- sim.Serve(ctx, ln) }()
	r := &Running{Sim: sim, URL: "http://" + ln.Addr().String(), APIKey: cfg.APIKey}
	r.stop = sync.OnceValue(func() error {
		cancel()
		return errors.Join(<-served, sim.Close())
	})
	t.Cleanup(func() {
		if err := r.Stop(); err != nil {
			t.Errorf("stop gateway-sim: %v", err)
		}
	})
	return r
}

// Stop ends it before the test does, as a graceful shutdown would. Another [Start] on the same Path goes on where it ended.
func (r *Running) Stop() error { return r.stop() }
