package client_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/testing/protocmp"

	paymentsv1 "chargeonce/api/payments/v1"
	"chargeonce/api/payments/v1/client"
)

// service is a gRPC face that a test plays.
type service struct {
	paymentsv1.UnimplementedPaymentServiceServer
	create func(context.Context, *paymentsv1.CreatePaymentRequest) (*paymentsv1.Payment, error)
}

func (s service) CreatePayment(ctx context.Context, req *paymentsv1.CreatePaymentRequest) (*paymentsv1.Payment, error) {
	return s.create(ctx, req)
}

func (s service) GetPayment(_ context.Context, req *paymentsv1.GetPaymentRequest) (*paymentsv1.Payment, error) {
	return &paymentsv1.Payment{Id: req.GetId()}, nil
}

func (s service) ListPayments(_ context.Context, req *paymentsv1.ListPaymentsRequest) (*paymentsv1.ListPaymentsResponse, error) {
	return &paymentsv1.ListPaymentsResponse{NextPageToken: req.GetOrderId() + req.GetPageToken() + string('0'+rune(req.GetPageSize()))}, nil
}

// dial serves s over memory and returns a connection to it.
func dial(t *testing.T, s service) *grpc.ClientConn {
	t.Helper()
	lis := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	paymentsv1.RegisterPaymentServiceServer(server, s)
	served := make(chan error, 1)
	go func() { served <- server.Serve(lis) }()
	conn, err := grpc.NewClient("passthrough:///memory",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry(), grpc.WithDisableServiceConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		server.Stop()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return conn
}

func TestBothFacesReadTheSameError(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		refusal
		action paymentsv1.NextAction
	}{
		"declined": {refusal{reason: "CARD_DECLINED", nextAction: "new_key", code: codes.FailedPrecondition, http: 402,
			extra: map[string]string{"decline_code": "do_not_honor"}}, paymentsv1.NextAction_NEW_KEY},
		"order already paid": {refusal{reason: "ORDER_ALREADY_PAID", nextAction: "stop", code: codes.FailedPrecondition, http: 409,
			extra: map[string]string{"payment_id": "pay_7"}}, paymentsv1.NextAction_STOP},
		"invalid": {refusal{reason: "REQUEST_INVALID", nextAction: "fix_request", code: codes.InvalidArgument, http: 400,
			violations: []client.Violation{{Field: "amount", Description: "must be greater than 0"}}}, paymentsv1.NextAction_FIX_REQUEST},
		"in progress": {inProgress, paymentsv1.NextAction_RETRY_SAME_KEY},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := dial(t, service{create: func(ctx context.Context, _ *paymentsv1.CreatePaymentRequest) (*paymentsv1.Payment, error) {
				if err := grpc.SetHeader(ctx, metadata.Pairs("x-trace-id", "t1")); err != nil {
					return nil, err
				}
				return nil, tt.status()
			}})
			for face, cfg := range map[string]client.Config{
				"REST": {HTTP: &script{answers: answers{refused(tt.refusal)}}}, "gRPC": {Conn: conn},
			} {
				cfg.MaxTries = 1
				_, err := newClient(t, cfg).Pay(t.Context(), client.NewIntent(purchase()))
				var got *client.Error
				if !errors.As(err, &got) {
					t.Fatalf("%s: got %v, want an Error", face, err)
				}
				want := tt.want(tt.action)
				if face == "REST" {
					want.HTTPStatus = tt.http
				} else {
					want.GRPCCode = tt.code
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", face, diff)
				}
			}
		})
	}
}

func TestGRPCSendsOneKeyAndOneCredentialWhateverTheContextHolds(t *testing.T) {
	t.Parallel()
	var got metadata.MD
	conn := dial(t, service{create: func(ctx context.Context, _ *paymentsv1.CreatePaymentRequest) (*paymentsv1.Payment, error) {
		got = metadata.Join(metadata.Pairs("idempotency-key", metadata.ValueFromIncomingContext(ctx, "idempotency-key")[0]),
			metadata.MD{"authorization": metadata.ValueFromIncomingContext(ctx, "authorization")})
		return payment(), grpc.SetHeader(ctx, metadata.Pairs("location", "/payments/pay_1", "idempotent-replayed", "true", "x-trace-id", "t1"))
	}})
	ctx := metadata.AppendToOutgoingContext(t.Context(), "idempotency-key", "another", "authorization", "Bearer another")
	out, err := newClient(t, client.Config{Conn: conn}).Pay(ctx, client.Intent{Key: "k", Request: purchase()})
	if err != nil {
		t.Fatal(err)
	}
	want := &client.Outcome{Payment: payment(), Replayed: true, Location: "/payments/pay_1", TraceID: "t1", Tries: 1}
	if diff := cmp.Diff(want, out, protocmp.Transform()); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(metadata.Pairs("idempotency-key", `"k"`, "authorization", "Bearer "+string(apiKey)), got); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
}

func TestGRPCStatusWithoutErrorInfoMeansTheSameKeyAgain(t *testing.T) {
	t.Parallel()
	for _, code := range []codes.Code{codes.Unavailable, codes.DeadlineExceeded, codes.FailedPrecondition, codes.Unauthenticated, codes.Internal} {
		t.Run(code.String(), func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int64
			conn := dial(t, service{create: func(context.Context, *paymentsv1.CreatePaymentRequest) (*paymentsv1.Payment, error) {
				if calls.Add(1) == 1 {
					return nil, status.Error(code, "a proxy's")
				}
				return payment(), nil
			}})
			out, err := newClient(t, client.Config{Conn: conn}).Pay(t.Context(), client.NewIntent(purchase()))
			if err != nil || out.Tries != 2 || calls.Load() != 2 {
				t.Errorf("got %v, %v after %d calls, want a success after two", out, err, calls.Load())
			}
		})
	}
}

func TestGRPCErrorInfoOfAnotherDomainIsNotTheService(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	conn := dial(t, service{create: func(context.Context, *paymentsv1.CreatePaymentRequest) (*paymentsv1.Payment, error) {
		if calls.Add(1) > 1 {
			return payment(), nil
		}
		st, err := status.New(codes.PermissionDenied, "a gateway's").WithDetails(
			&errdetails.ErrorInfo{Reason: "QUOTA", Domain: "gateway.test", Metadata: map[string]string{"next_action": "stop"}})
		if err != nil {
			return nil, err
		}
		return nil, st.Err()
	}})
	out, err := newClient(t, client.Config{Conn: conn}).Pay(t.Context(), client.NewIntent(purchase()))
	if err != nil || out.Tries != 2 {
		t.Errorf("got %v, %v, want a success at the second try", out, err)
	}
}

func TestGRPCTryEndsByItsOwnTime(t *testing.T) {
	t.Parallel()
	conn := dial(t, service{create: func(ctx context.Context, _ *paymentsv1.CreatePaymentRequest) (*paymentsv1.Payment, error) {
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}})
	_, err := newClient(t, client.Config{Conn: conn, TryTimeout: 20 * time.Millisecond, MaxTries: 2}).Pay(t.Context(), client.NewIntent(purchase()))
	var last *client.Error
	if !errors.As(err, &last) || !last.TimedOut() || !errors.Is(err, client.ErrNoTriesLeft) {
		t.Errorf("got %v, want two tries that timed out", err)
	}
}

func TestReads(t *testing.T) {
	t.Parallel()
	rest := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		body := `{"id":"` + r.PathValue("id") + `"}`
		if r.URL.Path == "/payments" {
			q := r.URL.Query()
			body = `{"next_page_token":"` + q.Get("order_id") + q.Get("page_token") + q.Get("page_size") + `"}`
		}
		if r.URL.Path == "/payments/pay_1" {
			body = `{"id":"pay_1"}`
		}
		if _, err := io.WriteString(w, body); err != nil {
			t.Errorf("answer: %v", err)
		}
	}))
	t.Cleanup(rest.Close)
	for face, cfg := range map[string]client.Config{"REST": {BaseURL: rest.URL}, "gRPC": {Conn: dial(t, service{})}} {
		t.Run(face, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, cfg)
			p, err := c.Get(t.Context(), "pay_1")
			if err != nil || p.GetId() != "pay_1" {
				t.Errorf("get: %v, %v", p, err)
			}
			page, err := c.List(t.Context(), &paymentsv1.ListPaymentsRequest{OrderId: "o", PageToken: "t", PageSize: 3})
			if err != nil || page.GetNextPageToken() != "ot3" {
				t.Errorf("list: %v, %v", page, err)
			}
		})
	}
}

// A warm connection that drops when the second purchase is sent over it: net/http sends a POST with an Idempotency-Key again by
// itself, unless it is kept from it, and nobody would count that try.
func TestRESTSendsNothingThatWasNotAskedFor(t *testing.T) {
	t.Parallel()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var posts atomic.Int64
	done := make(chan error, 1)
	go func() { done <- dropSecond(lis, &posts) }()
	c := newClient(t, client.Config{BaseURL: "http://" + lis.Addr().String(), MaxTries: 1})
	if _, err := c.Pay(t.Context(), client.NewIntent(purchase())); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Pay(t.Context(), client.NewIntent(purchase())); !errors.Is(err, client.ErrNoTriesLeft) {
		t.Errorf("got %v, want ErrNoTriesLeft", err)
	}
	if err := lis.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if got := posts.Load(); got != 2 {
		t.Errorf("the service got %d POSTs, want 2", got)
	}
}

// dropSecond answers the first request of each connection, and reads the second one and drops the connection.
func dropSecond(lis net.Listener, posts *atomic.Int64) error {
	for {
		conn, err := lis.Accept()
		if err != nil {
			return err
		}
		in := bufio.NewReader(conn)
		for n := 1; n <= 2; n++ {
			req, err := http.ReadRequest(in)
			if err != nil {
				break
			}
			if _, err := io.Copy(io.Discard, req.Body); err != nil {
				break
			}
			posts.Add(1)
			if n == 1 {
				resp := answer(201, "application/json", paymentJSON)
				resp.ContentLength, resp.ProtoMajor, resp.ProtoMinor = int64(len(paymentJSON)), 1, 1
				if err := resp.Write(conn); err != nil {
					return err
				}
			}
		}
		if err := conn.Close(); err != nil {
			return err
		}
	}
}
