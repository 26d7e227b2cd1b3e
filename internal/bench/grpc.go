package bench

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	paymentsv1 "chargeonce/api/payments/v1"
)

// grpcConns is how many connections the workers share. One would have them wait for one writer.
const grpcConns = 4

// grpcCaller calls over a connection that it shares with others.
type grpcCaller struct {
	stub paymentsv1.PaymentServiceClient
	keys []string // the API keys, by user
}

// dialGRPC opens the connections that n workers share. Nothing in them sends a request again by itself.
func dialGRPC(target string, n int) (conns []*grpc.ClientConn, err error) {
	for range min(n, grpcConns) {
		conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()), // the loopback interface
			grpc.WithDisableRetry(), grpc.WithDisableServiceConfig())
		if err != nil {
			return nil, errors.Join(fmt.Errorf("gRPC: %w", err), closeAll(conns))
		}
		conns = append(conns, conn)
	}
	return conns, nil
}

func closeAll(conns []*grpc.ClientConn) error {
	var errs []error
	for _, c := range conns {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

func (c *grpcCaller) try(ctx context.Context, p purchase) answer {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.keys[p.user], "idempotency-key", p.key)
	var header metadata.MD
	got, err := c.stub.CreatePayment(ctx, &paymentsv1.CreatePaymentRequest{
		OrderId: p.order, Amount: amount, Currency: currency, PaymentMethod: paymentMethod, Description: description,
	}, grpc.Header(&header))
	if err == nil {
		if got.GetOrderId() != p.order || got.GetStatus() != paymentsv1.Payment_SUCCEEDED {
			return answer{reason: fmt.Sprintf("OK with %s of order %s", got.GetStatus(), got.GetOrderId())}
		}
		replayed := header.Get("idempotent-replayed")
		return answer{charged: true, replayed: len(replayed) == 1 && replayed[0] == "true"}
	}
	st := status.Convert(err)
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetReason() != "" {
			return answer{reason: info.GetReason(), again: info.GetMetadata()["next_action"] == "retry_same_key"}
		}
	}
	return answer{reason: "no answer: " + st.Code().String(), again: true}
}

func (c *grpcCaller) close() error { return nil }
