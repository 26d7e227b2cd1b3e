package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	paymentsv1 "chargeonce/api/payments/v1"
)

// interceptors returns what every call passes, in this order:
//
//  1. lastResort, for the next one's own faults: a fault here must not end the process and all the payments in it.
//  2. observe: one log line and one measurement per call, whatever comes of it. So it stands before all that can refuse, and
//     it is where an error becomes a status.
//  3. recoverPanic: inside observe, so that the line tells of the panic.
//  4. limitLoad: a server that has all it can do must say so before it does anything.
//  5. limitTime: what follows may ask the database, and must not do so for ever.
//  6. authenticate: nobody but a caller that is known learns anything of the rules or costs more than this, and no caller more
//     often than its API key may.
//  7. check: the handler gets valid requests alone.
func (s *Server) interceptors() []grpc.UnaryServerInterceptor {
	return []grpc.UnaryServerInterceptor{
		s.lastResort,
		s.observe,
		recoverPanic,
		s.limitLoad,
		s.limitTime,
		s.authenticate,
		check,
	}
}

// lastResort is recoverPanic where nobody else tells of it.
func (s *Server) lastResort(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	resp, err := recoverPanic(ctx, req, info, next)
	var panicked *panicError
	if errors.As(err, &panicked) && !callOf(ctx).told {
		s.log.ErrorContext(ctx, "panic while a request was told of", "panic", fmt.Sprint(panicked.value), "stack", string(panicked.stack))
	}
	return resp, err
}

func recoverPanic(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (_ any, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = classify(ctx, &panicError{value: v, stack: debug.Stack()})
		}
	}()
	return next(ctx, req)
}

func (s *Server) limitLoad(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if internalMethod(info.FullMethod) {
		return next(ctx, req) // an orchestrator that restarts a server because it is busy makes the others busier
	}
	slot, err := s.load.enter()
	if err != nil {
		return nil, err
	}
	defer slot.leave()
	callOf(ctx).slot = slot
	return next(ctx, req)
}

func (s *Server) limitTime(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	ctx, cancel := context.WithDeadline(ctx, s.deadlines.at(time.Now(), callOf(ctx).deadline))
	defer cancel()
	resp, err := next(ctx, req)
	if err != nil {
		err = classify(ctx, err) // here, where it is known whether the caller's time is over
	}
	return resp, err
}

func (s *Server) authenticate(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if internalMethod(info.FullMethod) {
		return next(ctx, req)
	}
	who, err := s.auth.authenticate(ctx, metadata.ValueFromIncomingContext(ctx, "authorization"))
	if err != nil {
		return nil, err
	}
	c := callOf(ctx)
	c.userID = who.userID
	if c.face == faceGRPC { // over REST it was counted before its body was read
		if err := s.rates.take(who.keyHash); err != nil {
			return nil, err
		}
	}
	return next(ctx, req)
}

func check(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if internalMethod(info.FullMethod) {
		return next(ctx, req)
	}
	if err := undecoded(ctx); err != nil {
		p := invalid("The message can't be decoded.")
		p.cause = err
		return nil, p
	}
	m, ok := req.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("server: a request of type %T", req)
	}
	if err := validate(m); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

// internalMethod reports whether the method is for probes and tools, which have no API key.
func internalMethod(full string) bool {
	return strings.HasPrefix(full, "/grpc.health.v1.Health/") || strings.HasPrefix(full, "/grpc.reflection.")
}

// setHeader adds to the response's header. It can fail only after the header was sent, which a unary call does at its end.
func setHeader(ctx context.Context, log *slog.Logger, name, value string) {
	if err := grpc.SetHeader(ctx, metadata.Pairs(name, value)); err != nil {
		log.WarnContext(ctx, "a response header was lost", "header", name, "error", err)
	}
}

// noSuchMethod answers calls of methods that there are not, with a reason as every error has.
func noSuchMethod(any, grpc.ServerStream) error {
	p := &problem{reason: paymentsv1.Reason_NOT_FOUND, code: codes.Unimplemented, detail: "There is no such method."}
	return p.GRPCStatus().Err()
}
