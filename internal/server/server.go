package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
)

// Server serves the contract over gRPC and REST, and an admin port. Make one with [New].
type Server struct {
	cfg       Config
	log       *slog.Logger
	deadlines deadlines
	load      *load
	auth      *authenticator
	rates     *rateLimits // nil: no limit
	ready     *readiness
	readOnly  *readOnly
	service   *service
	metrics   *metrics
	// clientCerts: the routes of payments need a client certificate.
	clientCerts bool

	grpc        *grpc.Server
	rest, admin *http.Server

	grpcLis, restLis, adminLis net.Listener
}

// New makes a server. It listens on nothing yet.
func New(c Config) (*Server, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	writable := newReadOnly(context.Background(), c.ReadOnly, c.Log)
	s := &Server{
		cfg: c, log: c.Log, readOnly: writable,
		deadlines:   deadlines{def: c.DefaultDeadline, max: c.MaxDeadline},
		load:        &load{most: int64(c.MaxInFlight)},
		auth:        newAuthenticator(c.DB),
		rates:       newRateLimits(c.RateLimit, c.RateBurst),
		ready:       newReadiness(c.DB, c.Log),
		service:     &service{db: c.DB, flow: c.Flow, pages: newPages(c.PageTokenKey), log: c.Log, readOnly: writable},
		clientCerts: c.TLS != nil && c.TLS().ClientCAs != nil,
	}
	if s.metrics, err = newMetrics(otel.Meter(scope), s.load, s.readOnly); err != nil {
		return nil, err
	}
	s.grpc = s.newGRPC()
	gateway, err := newGateway(context.Background(), direct{service: s.service, intercept: chain(s.interceptors())}, s.refuse)
	if err != nil {
		return nil, err
	}
	// What is no HTTP request, or has more header than fits, net/http answers itself, with a 400 or 431 in plain text; it has no hook for
	// that. Nothing was done then, and a client that finds no next_action does what is safe: it treats it as retry_same_key.
	s.rest = &http.Server{
		Handler:           s.routes(gateway),
		ReadHeaderTimeout: c.ReadTimeout / 2,
		ReadTimeout:       c.ReadTimeout,
		WriteTimeout:      c.ReadTimeout + c.MaxDeadline + 2*answerGrace, // reading the body is part of it
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: 250},
		ErrorLog:          slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug), // what clients do wrong on the wire
	}
	s.admin = &http.Server{
		Handler:           s.adminRoutes(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      2 * time.Minute, // a profile takes its time
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// adminRoutes is what the admin port serves: in clear, to whoever can reach it. So it listens on 127.0.0.1 unless told otherwise.
func (s *Server) adminRoutes() http.Handler {
	mux := http.NewServeMux()
	if s.cfg.Metrics != nil {
		mux.Handle("GET /metrics", s.cfg.Metrics)
	}
	// Here too, for probes that have no certificate.
	mux.HandleFunc("GET /healthz", healthz)
	mux.HandleFunc("GET /readyz", s.readyz)
	s.readOnlyRoutes(mux)
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return http.NewCrossOriginProtection().Handler(mux) // a page in somebody's browser must not switch anything
}

// Addrs are the addresses that a server listens on, ports included.
type Addrs struct {
	GRPC  string `json:"grpc"`
	REST  string `json:"rest"`
	Admin string `json:"admin"`
}

// Start takes the addresses, so that [Server.Addrs] are known and connections wait for [Server.Run]. If one can't be had, none
// is kept.
func (s *Server) Start(ctx context.Context) error {
	var lc net.ListenConfig
	var errs []error
	for _, l := range []struct {
		name, addr string
		lis        *net.Listener
	}{
		{"gRPC", s.cfg.GRPCListen, &s.grpcLis}, {"REST", s.cfg.RESTListen, &s.restLis}, {"admin", s.cfg.AdminListen, &s.adminLis},
	} {
		lis, err := lc.Listen(ctx, "tcp", l.addr)
		if err != nil {
			errs = append(errs, fmt.Errorf("server: %s: %w", l.name, err))
			continue
		}
		*l.lis = lis
	}
	if len(errs) == 0 {
		return nil
	}
	for _, lis := range []net.Listener{s.grpcLis, s.restLis, s.adminLis} {
		if lis != nil {
			errs = append(errs, lis.Close())
		}
	}
	return errors.Join(errs...)
}

// Addrs returns where the server listens. Call it after [Server.Start].
func (s *Server) Addrs() Addrs {
	return Addrs{GRPC: s.grpcLis.Addr().String(), REST: s.restLis.Addr().String(), Admin: s.adminLis.Addr().String()}
}

// Run serves, after [Server.Start], until ctx ends or a listener fails. Then it says that it is not ready, takes no more
// requests, and lets those under way end within their bound, and the purchases whose client has left. A server runs once.
func (s *Server) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return named("gRPC", s.grpc.Serve(s.grpcLis)) })
	g.Go(func() error { return named("REST", s.serveREST()) })
	g.Go(func() error { return named("admin", s.admin.Serve(s.adminLis)) })
	g.Go(func() error {
		s.ready.run(ctx)
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		return s.drain(context.WithoutCancel(ctx))
	})
	return g.Wait()
}

func named(what string, err error) error {
	if err == nil || errors.Is(err, http.ErrServerClosed) || errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return fmt.Errorf("server: %s: %w", what, err)
}

// drain ends serving in the order that loses nothing: no new requests, then those under way, then the purchases that nobody waits
// for, then what they all need.
func (s *Server) drain(ctx context.Context) error {
	s.ready.drain()
	s.log.InfoContext(ctx, "stopping: not ready any more")
	delay := time.NewTimer(s.cfg.DrainDelay)
	<-delay.C
	ctx, cancel := context.WithTimeout(ctx, s.cfg.DrainTimeout)
	defer cancel()

	var faces sync.WaitGroup
	var restErr error
	faces.Go(func() { restErr = stopHTTP(ctx, s.rest) })
	faces.Go(func() { stopGRPC(ctx, s.grpc) })
	faces.Wait()
	err := errors.Join(restErr, s.waitUnattended(ctx))

	err = errors.Join(err, stopHTTP(ctx, s.admin), s.metrics.close())
	s.log.InfoContext(ctx, "stopped", "error", err)
	return err
}

// waitUnattended waits for the purchases that go on without a client.
func (s *Server) waitUnattended(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		s.service.unattended.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		return fmt.Errorf("server: purchases were still under way: %w", ctx.Err())
	}
	if err := s.cfg.Flow.Wait(ctx); err != nil {
		return fmt.Errorf("server: purchases were still under way: %w", err)
	}
	return nil
}

func stopHTTP(ctx context.Context, h *http.Server) error {
	if err := h.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("server: requests were still under way: %w", err), h.Close())
	}
	return nil
}

func stopGRPC(ctx context.Context, g *grpc.Server) {
	done := make(chan struct{})
	go func() {
		g.GracefulStop()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		g.Stop() // ends the GracefulStop too
		<-done
	}
}
