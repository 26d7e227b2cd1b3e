package server

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc/tap"

	paymentsv1 "chargeonce/api/payments/v1"
)

// askedKey holds the deadline that a gRPC client asked for, zero for none.
type askedKey struct{}

// limitReading bounds a gRPC call from its header on. The library reads the message before any interceptor runs, and without a
// deadline of the client's it would wait for it as long as the connection lasts: a client that sends headers and no message would
// hold a stream for minutes, a thousand times over. Streams, of health and reflection, are left alone.
func (s *Server) limitReading(ctx context.Context, info *tap.Info) (context.Context, error) {
	if !strings.HasPrefix(info.FullMethodName, "/"+paymentsv1.PaymentService_ServiceDesc.ServiceName+"/") {
		return ctx, nil
	}
	asked, ok := ctx.Deadline()
	if !ok {
		asked = time.Time{}
	}
	bounded, cancel := context.WithTimeout(context.WithValue(ctx, askedKey{}, asked), s.cfg.MaxDeadline+answerGrace)
	context.AfterFunc(ctx, cancel) // the library ends ctx with the call
	return bounded, nil
}

// askedOverGRPC returns the deadline that the client asked for, zero for none.
func askedOverGRPC(ctx context.Context) time.Time {
	asked, ok := ctx.Value(askedKey{}).(time.Time)
	if !ok {
		return time.Time{}
	}
	return asked
}
