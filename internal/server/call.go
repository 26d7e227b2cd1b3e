package server

import (
	"context"
	"strconv"
	"time"

	"google.golang.org/grpc/metadata"
)

// face is the way a request came in.
type face string

const (
	faceGRPC face = "grpc"
	faceREST face = "rest"
)

// call is what one request is known by. It goes along in the context; the interceptors and the handler fill it in, and the
// request's log line tells it.
type call struct {
	face     face
	userID   int64
	keyHint  string
	replayed bool
	slot     *slot
}

type callKey struct{}

func withCall(ctx context.Context, c *call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

func callOf(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return &call{face: faceGRPC} // of a stream: health and reflection, which need none of it
}

// The metadata between the gateway and the inner server. It is read where the face is REST and nowhere else, so that nobody
// can send it from outside. Those of the request carry headers as they came: gRPC's own text values could not hold every
// byte that a header can. Those of the response carry what REST sends and gRPC does not.
const (
	mdKeys       = "chargeonce-idempotency-key-bin"
	mdPrefer     = "chargeonce-prefer-bin"
	mdDeadline   = "chargeonce-deadline"
	mdBody       = "chargeonce-body-bin"
	mdHTTPStatus = "chargeonce-http-status"
)

// The metadata that a client over gRPC reads, and the headers that one over REST does.
const (
	mdLocation          = "location"
	mdReplayed          = "idempotent-replayed"
	mdPreferenceApplied = "preference-applied"
	mdTraceID           = "x-trace-id"
)

// idempotencyKeys returns the values of the request's Idempotency-Key.
func idempotencyKeys(ctx context.Context) []string {
	if callOf(ctx).face == faceREST {
		return metadata.ValueFromIncomingContext(ctx, mdKeys)
	}
	return metadata.ValueFromIncomingContext(ctx, "idempotency-key")
}

// askedDeadline returns the deadline that the caller wants, zero for none. Over REST the gateway has worked it out already; the
// in-memory call's own is a little later (see answerGrace).
func askedDeadline(ctx context.Context) time.Time {
	if callOf(ctx).face == faceREST {
		if v := metadata.ValueFromIncomingContext(ctx, mdDeadline); len(v) == 1 {
			if nanos, err := strconv.ParseInt(v[0], 10, 64); err == nil {
				return time.Unix(0, nanos)
			}
		}
	}
	d, ok := ctx.Deadline()
	if !ok {
		return time.Time{}
	}
	return d
}
