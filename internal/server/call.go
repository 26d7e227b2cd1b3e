package server

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/metadata"

	"chargeonce/internal/idempotency"
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
	told     bool // its log line is written
	// paymentID is the payment's that the request is about, once it is known. A purchase may learn it after its client has left.
	paymentID atomic.Pointer[string]

	// deadline is the one that the caller wants, as its face has worked it out; zero for none.
	deadline time.Time
	// Of a request over REST: its headers as they came, since gRPC's own text values could not hold every byte that a header can.
	keys, preferences []string
	// stored is the key's answer as REST sends it: byte for byte, every time.
	stored *idempotency.Stored
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

// The metadata that a client over gRPC reads, and the headers that one over REST does.
const (
	mdLocation          = "location"
	mdReplayed          = "idempotent-replayed"
	mdPreferenceApplied = "preference-applied"
	mdTraceID           = "x-trace-id"
)

// idempotencyKeys returns the values of the request's Idempotency-Key.
func idempotencyKeys(ctx context.Context) []string {
	if c := callOf(ctx); c.face == faceREST {
		return c.keys
	}
	return metadata.ValueFromIncomingContext(ctx, "idempotency-key")
}
