package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// passing is what a service of a chain hands on of its caller's deadline.
type passing string

const (
	// ownTimeout: nothing. The service works on, whatever becomes of its caller.
	ownTimeout passing = "own time-outs alone"
	// hangUp: that the caller has hung up, once it has.
	hangUp passing = "cut when the caller hangs up"
	// deadlineOn: the deadline itself, as gRPC does by grpc-timeout. A service that sees less time left than its work takes
	// refuses at once.
	deadlineOn passing = "the deadline passed on"
)

// chainTimeout is each service's own time-out, long enough for a chain of them.
const chainTimeout = 30 * time.Second

// workSlice is the grain in which work is done and counted.
const workSlice = 10 * time.Millisecond

// chainService works for a while and then asks the next one. Its only method is that of gRPC's health check, which saves the
// experiment a contract of its own: the field service holds the number of the request.
type chainService struct {
	healthv1.UnimplementedHealthServer
	passing passing
	work    time.Duration
	ledger  *workLedger
	next    healthv1.HealthClient // nil: it is the last one
}

// Check implements healthv1.HealthServer.
func (s *chainService) Check(ctx context.Context, req *healthv1.HealthCheckRequest) (*healthv1.HealthCheckResponse, error) {
	request, err := strconv.Atoi(req.GetService())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	ctx, cancel := s.passing.own(ctx)
	defer cancel()
	if left, ok := ctx.Deadline(); ok && time.Until(left) < s.work {
		return nil, status.Error(codes.DeadlineExceeded, "too little time is left to begin")
	}
	if s.next == nil {
		s.ledger.beginLast()
	}
	for done := time.Duration(0); done < s.work; done += workSlice {
		if err := waitFor(ctx, min(workSlice, s.work-done)); err != nil {
			return nil, status.FromContextError(err).Err()
		}
		s.ledger.worked(request)
	}
	if s.next == nil {
		return &healthv1.HealthCheckResponse{Status: healthv1.HealthCheckResponse_SERVING}, nil
	}
	return s.next.Check(ctx, req)
}

// own is the context under which a service works and asks the next one.
func (p passing) own(caller context.Context) (context.Context, context.CancelFunc) {
	if p == deadlineOn {
		return context.WithCancel(caller)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(caller), chainTimeout)
	if p == hangUp {
		context.AfterFunc(caller, cancel)
	}
	return ctx, cancel
}

// workLedger notes the slices of work that were done, by request, and how often the last service began.
type workLedger struct {
	mu     sync.Mutex
	slices [][]time.Time
	last   int64
}

func (l *workLedger) beginLast() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
}

func (l *workLedger) worked(request int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slices[request] = append(l.slices[request], time.Now())
}

// onChain serves a chain of so many services, runs do with a client of the first, and waits until all their work has ended.
func onChain(ctx context.Context, services int, service func(next healthv1.HealthClient) *chainService, next healthv1.HealthClient,
	do func(healthv1.HealthClient) error) (err error) {
	if services == 0 {
		return do(next)
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	healthv1.RegisterHealthServer(server, service(next))
	served := goServe(server, ln)
	defer func() {
		server.GracefulStop()
		err = errors.Join(err, <-served)
	}()
	conn, err := grpc.NewClient("passthrough:"+ln.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := ready(ctx, conn); err != nil {
		return err
	}
	return onChain(ctx, services-1, service, healthv1.NewHealthClient(conn), do)
}

func goServe(server *grpc.Server, ln net.Listener) <-chan error {
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	return served
}

// ready waits until a connection is there, so that making it takes nothing of a deadline.
func ready(ctx context.Context, conn *grpc.ClientConn) error {
	conn.Connect()
	for {
		state := conn.GetState()
		if state == connectivity.Ready {
			return nil
		}
		if !conn.WaitForStateChange(ctx, state) {
			return fmt.Errorf("connecting to %s: %w", conn.Target(), ctx.Err())
		}
	}
}
