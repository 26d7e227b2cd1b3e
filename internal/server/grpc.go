package server

import (
	"context"
	"time"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	paymentsv1 "chargeonce/api/payments/v1"
)

// newGRPC makes the server of the gRPC face.
func (s *Server) newGRPC() *grpc.Server {
	g := grpc.NewServer(
		grpc.ChainUnaryInterceptor(append([]grpc.UnaryServerInterceptor{fromGRPC}, s.interceptors()...)...),
		grpc.UnknownServiceHandler(noSuchMethod),
		grpc.ForceServerCodecV2(newTolerantCodec()),
		grpc.MaxRecvMsgSize(maxBody), // more is refused by the library itself, without a reason, as a malformed grpc-timeout is
		tracedCalls(),
		s.credentials(),
		grpc.InTapHandle(s.limitReading),
		grpc.ConnectionTimeout(s.cfg.ReadTimeout), // the handshakes
		grpc.MaxConcurrentStreams(1000),
		grpc.MaxHeaderListSize(16<<10),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle:     5 * time.Minute,
			MaxConnectionAge:      10 * time.Minute, // so that clients find new servers; gRPC spreads it by ± 10 %
			MaxConnectionAgeGrace: s.cfg.MaxDeadline + 2*answerGrace,
			Time:                  time.Minute,
			Timeout:               20 * time.Second,
		}),
	)
	g.RegisterService(tolerant(paymentsv1.PaymentService_ServiceDesc), s.service)
	healthpb.RegisterHealthServer(g, s.ready.health)
	reflection.Register(g)
	return g
}

// fromGRPC is where a call that came in over gRPC begins.
func fromGRPC(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	return next(withCall(ctx, &call{face: faceGRPC, deadline: askedOverGRPC(ctx)}), req)
}
