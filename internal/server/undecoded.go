package server

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// A request whose bytes are no message would be answered by gRPC itself, as INTERNAL: unauthenticated, unlogged and without a
// reason. Here it passes through the interceptors like every other request, and check refuses it.

// incoming is a message being received, and why it could not be.
type incoming struct {
	message any
	err     error
}

// tolerantCodec is gRPC's own, except that a fault of an incoming message is kept and not returned.
type tolerantCodec struct{ encoding.CodecV2 }

func newTolerantCodec() tolerantCodec { return tolerantCodec{encoding.GetCodecV2(grpcproto.Name)} }

func (c tolerantCodec) Unmarshal(data mem.BufferSlice, v any) error {
	if in, ok := v.(*incoming); ok {
		in.err = c.CodecV2.Unmarshal(data, in.message)
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}

type undecodedKey struct{}

// undecoded returns why the request's bytes are no message, nil if they are one.
func undecoded(ctx context.Context) error {
	err, _ := ctx.Value(undecodedKey{}).(error)
	return err
}

// tolerant returns the service's description with handlers that receive by way of [incoming]. The server must have
// [tolerantCodec].
func tolerant(desc grpc.ServiceDesc) *grpc.ServiceDesc {
	methods := make([]grpc.MethodDesc, len(desc.Methods))
	for i, m := range desc.Methods {
		methods[i] = grpc.MethodDesc{
			MethodName: m.MethodName,
			Handler: func(srv any, ctx context.Context, decode func(any) error, next grpc.UnaryServerInterceptor) (any, error) {
				var in incoming
				return m.Handler(srv, ctx,
					func(into any) error {
						in.message = into
						return decode(&in)
					},
					func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
						if in.err != nil {
							ctx = context.WithValue(ctx, undecodedKey{}, in.err)
						}
						return next(ctx, req, info, handler)
					})
			},
		}
	}
	desc.Methods = methods
	return &desc
}
