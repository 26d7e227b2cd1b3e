package server

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	paymentsv1 "chargeonce/api/payments/v1"
)

// direct is the service as the gateway calls it: in this process, without a connection, behind the same interceptors as a call over the
// network. (A connection in memory, with its framing and its goroutines, cost as much as all the rest of the REST face.)
type direct struct {
	paymentsv1.UnimplementedPaymentServiceServer

	service   paymentsv1.PaymentServiceServer
	intercept grpc.UnaryServerInterceptor
}

// CreatePayment implements paymentsv1.PaymentServiceServer.
func (d direct) CreatePayment(ctx context.Context, req *paymentsv1.CreatePaymentRequest) (*paymentsv1.Payment, error) {
	return through(ctx, d, paymentsv1.PaymentService_CreatePayment_FullMethodName, req, d.service.CreatePayment)
}

// GetPayment implements paymentsv1.PaymentServiceServer.
func (d direct) GetPayment(ctx context.Context, req *paymentsv1.GetPaymentRequest) (*paymentsv1.Payment, error) {
	return through(ctx, d, paymentsv1.PaymentService_GetPayment_FullMethodName, req, d.service.GetPayment)
}

// ListPayments implements paymentsv1.PaymentServiceServer.
func (d direct) ListPayments(ctx context.Context, req *paymentsv1.ListPaymentsRequest) (*paymentsv1.ListPaymentsResponse, error) {
	return through(ctx, d, paymentsv1.PaymentService_ListPayments_FullMethodName, req, d.service.ListPayments)
}

// through makes the call by way of the interceptors.
func through[Req, Resp any](ctx context.Context, d direct, method string, req Req,
	handle func(context.Context, Req) (Resp, error)) (out Resp, err error) {
	resp, err := d.intercept(ctx, req, &grpc.UnaryServerInfo{Server: d.service, FullMethod: method},
		func(ctx context.Context, _ any) (any, error) { return handle(ctx, req) })
	if err != nil {
		return out, err
	}
	out, ok := resp.(Resp)
	if !ok {
		return out, fmt.Errorf("server: %s gave a %T", method, resp)
	}
	return out, nil
}

// chain makes one interceptor of many; the first one is the outermost, as with [grpc.ChainUnaryInterceptor].
func chain(all []grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		next := handle
		for i := len(all) - 1; i >= 0; i-- {
			inner := next
			next = func(ctx context.Context, req any) (any, error) { return all[i](ctx, req, info, inner) }
		}
		return next(ctx, req)
	}
}
