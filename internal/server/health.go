package server

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	paymentsv1 "chargeonce/api/payments/v1"
)

const (
	pingTimeout  = time.Second
	pingInterval = 2 * time.Second
)

var errDraining = errors.New("the server is stopping")

// readiness says whether this server should be sent requests: its database answers, and it is not stopping.
type readiness struct {
	db       *sql.DB
	log      *slog.Logger
	health   *health.Server // tells the same over gRPC
	draining atomic.Bool
}

func newReadiness(db *sql.DB, log *slog.Logger) *readiness {
	r := &readiness{db: db, log: log, health: health.NewServer()}
	r.tell(healthpb.HealthCheckResponse_NOT_SERVING) // until it is known better
	return r
}

func (r *readiness) check(ctx context.Context) error {
	if r.draining.Load() {
		return errDraining
	}
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	return r.db.PingContext(ctx)
}

// run keeps the gRPC health service up to date until ctx ends.
func (r *readiness) run(ctx context.Context) {
	ready := false
	for ctx.Err() == nil {
		err := r.check(ctx)
		if was := ready; was != (err == nil) && ctx.Err() == nil {
			ready = err == nil
			r.log.InfoContext(ctx, "readiness changed", "ready", ready, "error", err)
		}
		switch {
		case r.draining.Load() || ctx.Err() != nil:
		case err == nil:
			r.tell(healthpb.HealthCheckResponse_SERVING)
		default:
			r.tell(healthpb.HealthCheckResponse_NOT_SERVING)
		}
		pause := time.NewTimer(pingInterval/2 + rand.N(pingInterval))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
		}
	}
}

// drain turns readiness off for good.
func (r *readiness) drain() {
	r.draining.Store(true)
	r.health.Shutdown()
}

func (r *readiness) tell(status healthpb.HealthCheckResponse_ServingStatus) {
	r.health.SetServingStatus("", status)
	r.health.SetServingStatus(paymentsv1.PaymentService_ServiceDesc.ServiceName, status)
}

// healthz says that the process lives, which it does even without its database: restarting it would heal nothing.
func healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if _, err := io.WriteString(w, "ok\n"); err != nil {
		return // the prober left; there is nobody to tell
	}
}

// readyz says whether to send requests here. The reason goes to the log, not to whoever asks.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	if err := s.ready.check(r.Context()); err != nil {
		s.log.WarnContext(r.Context(), "not ready", "error", err)
		s.refuse(w, r, &forwarded{retryLater(paymentsv1.Reason_UNAVAILABLE, 0, err)})
		return
	}
	healthz(w, r)
}
