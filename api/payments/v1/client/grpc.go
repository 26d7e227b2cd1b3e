package client

import (
	"context"
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	paymentsv1 "chargeonce/api/payments/v1"
)

// domain is ErrorInfo.domain of every error of the service.
const domain = "chargeonce"

// overGRPC speaks to the gRPC face.
type overGRPC struct {
	stub paymentsv1.PaymentServiceClient
	auth string
	own  *grpc.ClientConn // nil when the connection is the caller's
}

func newGRPC(cfg Config) (face, error) {
	g := &overGRPC{auth: "Bearer " + string(cfg.APIKey)}
	if cfg.Conn != nil {
		g.stub = paymentsv1.NewPaymentServiceClient(cfg.Conn)
		return g, nil
	}
	creds := cfg.Credentials
	if creds == nil {
		creds = credentials.NewTLS(nil)
	}
	// What is left of gRPC's own retrying sends again only what never reached the service.
	conn, err := grpc.NewClient(cfg.Target, grpc.WithTransportCredentials(creds), grpc.WithDisableRetry(), grpc.WithDisableServiceConfig())
	if err != nil {
		return nil, fmt.Errorf("gRPC target: %w", err)
	}
	g.own, g.stub = conn, paymentsv1.NewPaymentServiceClient(conn)
	return g, nil
}

func (g *overGRPC) close() error {
	if g.own == nil {
		return nil
	}
	return g.own.Close()
}

func (g *overGRPC) create(ctx context.Context, intent Intent) (*Outcome, *Error) {
	var header metadata.MD
	ctx = g.outgoing(ctx, "idempotency-key", intent.Key.wire())
	p, err := g.stub.CreatePayment(ctx, intent.Request, grpc.Header(&header))
	if err != nil {
		return nil, statusError(err, header)
	}
	return &Outcome{Payment: p, Replayed: replayed(header), Location: first(header, "location"), TraceID: first(header, "x-trace-id")}, nil
}

func (g *overGRPC) get(ctx context.Context, req *paymentsv1.GetPaymentRequest) (*paymentsv1.Payment, *Error) {
	var header metadata.MD
	p, err := g.stub.GetPayment(g.outgoing(ctx), req, grpc.Header(&header))
	if err != nil {
		return nil, statusError(err, header)
	}
	return p, nil
}

func (g *overGRPC) list(ctx context.Context, req *paymentsv1.ListPaymentsRequest) (*paymentsv1.ListPaymentsResponse, *Error) {
	var header metadata.MD
	page, err := g.stub.ListPayments(g.outgoing(ctx), req, grpc.Header(&header))
	if err != nil {
		return nil, statusError(err, header)
	}
	return page, nil
}

// outgoing sets the credential and pairs of names and values, in the place of any that the caller's context has.
func (g *overGRPC) outgoing(ctx context.Context, pairs ...string) context.Context {
	md, ok := metadata.FromOutgoingContext(ctx) // a copy
	if !ok {
		md = metadata.MD{}
	}
	md.Set("authorization", g.auth)
	for i := 0; i+1 < len(pairs); i += 2 {
		md.Set(pairs[i], pairs[i+1])
	}
	inject(ctx, func(name, value string) { md.Set(name, value) })
	return metadata.NewOutgoingContext(ctx, md)
}

// statusError reads a status. One without an ErrorInfo of the service's was made by a library or a proxy on the way.
func statusError(err error, header metadata.MD) *Error {
	st := status.Convert(err)
	e := unheard(nil)
	e.GRPCCode, e.Replayed, e.TraceID = st.Code(), replayed(header), first(header, "x-trace-id")
	for _, detail := range st.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() == domain {
				e.Reason, e.NextAction = d.GetReason(), nextAction(d.GetMetadata()["next_action"])
				e.DeclineCode, e.PaymentID = d.GetMetadata()["decline_code"], d.GetMetadata()["payment_id"]
			}
		case *errdetails.RetryInfo:
			e.RetryAfter = max(0, d.GetRetryDelay().AsDuration())
		case *errdetails.BadRequest:
			for _, v := range d.GetFieldViolations() {
				e.Violations = append(e.Violations, Violation{v.GetField(), v.GetDescription()})
			}
		}
	}
	if e.Reason != "" {
		e.Detail = st.Message()
		return e
	}
	e.Cause = err
	switch e.GRPCCode {
	case codes.DeadlineExceeded:
		e.Cause = fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	case codes.Canceled:
		e.Cause = fmt.Errorf("%w: %w", context.Canceled, err)
	}
	return e
}

func replayed(header metadata.MD) bool { return first(header, "idempotent-replayed") == "true" }

func first(header metadata.MD, name string) string {
	if values := header.Get(name); len(values) > 0 {
		return values[0]
	}
	return ""
}
