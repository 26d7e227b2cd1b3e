package gatewaysim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// Serve answers on ln until ctx ends. Then requests that hang are cut at once, the others have [Config.ShutdownGrace] to
// finish, and what is left is cut too. It closes ln, and returns nil after such an end.
func (s *Sim) Serve(ctx context.Context, ln net.Listener) error {
	unused := unusedConns{conns: map[net.Conn]struct{}{}}
	server := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: 5 * time.Second,
		// Bodies and answers have time-outs of their own: bodyTimeout and writeTimeout.
		IdleTimeout:    2 * time.Minute,
		MaxHeaderBytes: 16 << 10,
		ErrorLog:       slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		ConnState: func(conn net.Conn, state http.ConnState) {
			s.stats.connState(conn, state)
			unused.note(conn, state)
		},
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	select {
	case err := <-served:
		return fmt.Errorf("gateway-sim: serve: %w", err)
	case <-ctx.Done():
	}

	s.cutHung()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.ShutdownGrace)
	defer cancel()
	if err := unused.close(); err != nil {
		s.log.Debug("an unused connection did not close", "error", err)
	}
	err := server.Shutdown(grace)
	if errors.Is(err, context.DeadlineExceeded) {
		s.log.Warn("requests were cut at the end of the grace period")
		s.cancel()
		err = server.Close()
	}
	if served := <-served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	if err != nil {
		return fmt.Errorf("gateway-sim: shut down: %w", err)
	}
	return nil
}

// unusedConns are the connections that no request has come over yet. Callers open them in advance, and
// [http.Server.Shutdown] would wait five seconds for them.
type unusedConns struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

func (u *unusedConns) note(conn net.Conn, state http.ConnState) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if state == http.StateNew {
		u.conns[conn] = struct{}{}
	} else {
		delete(u.conns, conn)
	}
}

func (u *unusedConns) close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	var err error
	for conn := range u.conns {
		err = errors.Join(err, conn.Close())
	}
	return err
}
