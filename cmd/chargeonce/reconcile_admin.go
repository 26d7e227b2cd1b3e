package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// adminTimeout bounds each request to the admin port of a reconciliation loop, and the wait for the last ones at its end.
const adminTimeout = 10 * time.Second

// serveMetrics serves GET /metrics on an address until the returned function is called. It is for a loop of passes: one pass is
// over before anybody asks, and leaves a row in reconcile_runs.
func serveMetrics(ctx context.Context, address string, metrics http.Handler, log *slog.Logger) (stop func() error, err error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--admin-listen: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: adminTimeout, ReadTimeout: adminTimeout, WriteTimeout: adminTimeout}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ln) }()
	log.InfoContext(ctx, "serving metrics", "admin", ln.Addr().String())
	return func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), adminTimeout)
		defer cancel()
		err := srv.Shutdown(ctx)
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	}, nil
}
