package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	paymentsv1 "chargeonce/api/payments/v1"
)

// lateService sets headers, and answers at its deadline or when its caller leaves.
type lateService struct {
	paymentsv1.UnimplementedPaymentServiceServer
	left chan error
}

func (s lateService) GetPayment(ctx context.Context, _ *paymentsv1.GetPaymentRequest) (*paymentsv1.Payment, error) {
	header := metadata.Pairs(mdReplayed, "true", mdLocation, "/payments/pay_1", "x-secret", "inner")
	if err := grpc.SetHeader(ctx, header); err != nil {
		return nil, err
	}
	timer := time.NewTimer(time.Until(callOf(ctx).deadline))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil, classify(ctx, retryLater(paymentsv1.Reason_DEADLINE_EXCEEDED, 0, nil))
	case <-ctx.Done():
		s.left <- ctx.Err()
		return nil, ctx.Err()
	}
}

// newLate returns the REST face of a lateService, and what the service saw of callers that left.
func newLate(t *testing.T) (http.Handler, <-chan error) {
	t.Helper()
	left := make(chan error, 1)
	_, auth := newFakeKeys()
	auth.lookUp = func(context.Context, [32]byte) (int64, bool, error) { return 7, true, nil }
	s := &Server{log: slog.New(slog.DiscardHandler), load: &load{most: 10}, deadlines: deadlines{def: 10 * time.Second, max: 30 * time.Second},
		auth: auth, ready: newReadiness(nil, slog.New(slog.DiscardHandler))}
	var err error
	if s.metrics, err = newMetrics(noop.NewMeterProvider().Meter("test"), s.load, newReadOnly(t.Context(), false, s.log)); err != nil {
		t.Fatal(err)
	}
	gateway, err := newGateway(t.Context(), lateService{left: left}, s.refuse)
	if err != nil {
		t.Fatal(err)
	}
	return s.routes(gateway), left
}

func lateRequest(ctx context.Context, timeout string) *http.Request {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/payments/pay_01998a3e-7c1d-7f2a-8b3c-0123456789ab", nil)
	r.Header.Set("Authorization", "Bearer sk_test_1")
	r.Header.Set("Grpc-Timeout", timeout)
	return r
}

func TestHeadersSurviveADeadlineThatExpires(t *testing.T) {
	t.Parallel()
	h, _ := newLate(t)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, lateRequest(t.Context(), "100m"))
	if w.Code != http.StatusGatewayTimeout || w.Header().Get("Idempotent-Replayed") != "true" ||
		w.Header().Get("Location") != "/payments/pay_1" || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d, %v", w.Code, w.Header())
	}
	if got := w.Header().Get("X-Secret"); got != "" {
		t.Errorf("a header that is not named came out: %q", got)
	}
}

func TestAClientThatLeavesCancelsTheCall(t *testing.T) {
	t.Parallel()
	h, left := newLate(t)
	ctx, cancel := context.WithCancel(t.Context())
	timer := time.AfterFunc(50*time.Millisecond, cancel)
	defer timer.Stop()
	h.ServeHTTP(httptest.NewRecorder(), lateRequest(ctx, "20S"))
	select {
	case err := <-left:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the service saw %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("the service was not told")
	}
}
