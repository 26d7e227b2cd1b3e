package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	paymentsv1 "chargeonce/api/payments/v1"
	"chargeonce/internal/idempotency"
)

// answerGrace is how much later than the request's deadline the in-memory call ends. The handler answers at the deadline, with a
// reason and with the headers it has set; without the grace the gRPC client could be first, with neither.
const answerGrace = time.Second

// restCall is what the REST face found out about a request before it became a call.
type restCall struct{ deadline time.Time }

type restCallKey struct{}

// dialInMemory returns the gateway's connection to the inner server.
func dialInMemory(lis *bufconn.Listener) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///in-memory",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()), // memory is not read on its way
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(), // retrying is the client's, who knows the key
		grpc.WithStatsHandler(otelgrpc.NewClientHandler(otelgrpc.WithMeterProvider(noop.NewMeterProvider()))),
	)
}

// newGateway makes REST requests into calls on conn. Of the request's headers only Authorization, the idempotency key and
// the preferences go along, of the response's only those that are named here come back: gRPC's prefixes are nobody's business.
func newGateway(ctx context.Context, conn *grpc.ClientConn, refuse func(http.ResponseWriter, *http.Request, error)) (http.Handler, error) {
	mux := runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, fixedJSON{}),
		runtime.WithIncomingHeaderMatcher(func(string) (string, bool) { return "", false }),
		runtime.WithOutgoingHeaderMatcher(outgoingHeader),
		runtime.WithOutgoingTrailerMatcher(func(string) (string, bool) { return "", false }),
		runtime.WithMetadata(requestMetadata),
		runtime.WithForwardResponseOption(writeStatus),
		runtime.WithForwardResponseRewriter(storedBody),
		runtime.WithWriteContentLength(),
		runtime.WithDisablePathLengthFallback(),
		runtime.WithDisableHTTPMethodOverride(),
		runtime.WithErrorHandler(func(ctx context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, err error) {
			md, ok := runtime.ServerMetadataFromContext(ctx)
			if !ok {
				md.HeaderMD = metadata.MD{}
			}
			forwardError(w, r, md.HeaderMD, err, refuse)
		}),
		runtime.WithRoutingErrorHandler(func(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, _ int) {
			refuse(w, r, &problem{reason: paymentsv1.Reason_NOT_FOUND})
		}),
	)
	if err := paymentsv1.RegisterPaymentServiceHandler(ctx, mux, conn); err != nil {
		return nil, fmt.Errorf("server: gateway: %w", err)
	}
	return mux, nil
}

func requestMetadata(ctx context.Context, r *http.Request) metadata.MD {
	md := metadata.MD{}
	md.Append(mdKeys, r.Header.Values("Idempotency-Key")...)
	md.Append(mdPrefer, r.Header.Values("Prefer")...)
	if c, ok := ctx.Value(restCallKey{}).(restCall); ok {
		md.Set(mdDeadline, strconv.FormatInt(c.deadline.UnixNano(), 10))
	}
	return md
}

func outgoingHeader(name string) (string, bool) {
	switch name {
	case mdLocation:
		return "Location", true
	case mdReplayed:
		return "Idempotent-Replayed", true
	case mdPreferenceApplied:
		return "Preference-Applied", true
	}
	return "", false
}

// writeStatus sends 201 or 202 where the answer has a status of its own.
func writeStatus(ctx context.Context, w http.ResponseWriter, _ proto.Message) error {
	md, ok := runtime.ServerMetadataFromContext(ctx)
	if !ok {
		return nil
	}
	values := md.HeaderMD.Get(mdHTTPStatus)
	if len(values) != 1 {
		return nil
	}
	code, err := strconv.Atoi(values[0])
	if err != nil {
		return fmt.Errorf("server: status of the stored answer: %w", err)
	}
	if body := md.HeaderMD.Get(mdBody); len(body) == 1 {
		w.Header().Set("Content-Length", strconv.Itoa(len(body[0])))
	}
	w.WriteHeader(code)
	return nil
}

// storedBody puts the stored bytes in the place of the message that was read from them.
func storedBody(ctx context.Context, m proto.Message) (any, error) {
	if md, ok := runtime.ServerMetadataFromContext(ctx); ok {
		if body := md.HeaderMD.Get(mdBody); len(body) == 1 {
			return verbatim(body[0]), nil
		}
	}
	return m, nil
}

// forwardError answers a call that failed, with the headers that it had set.
func forwardError(w http.ResponseWriter, r *http.Request, md metadata.MD, err error, refuse func(http.ResponseWriter, *http.Request, error)) {
	for name := range md {
		if header, ok := outgoingHeader(name); ok {
			for _, v := range md.Get(name) {
				w.Header().Add(header, v)
			}
		}
	}
	p := problemOf(status.Convert(err))
	if body := md.Get(mdBody); len(body) == 1 {
		// The key's final answer goes out as it was stored. It may be a newer build's, with a reason that is not known here.
		stored, err := storedProblem(idempotency.Stored{Body: []byte(body[0])})
		if err != nil {
			refuse(w, r, err)
			return
		}
		p = stored
	}
	refuse(w, r, &forwarded{p})
}

// forwarded marks a problem that the inner server has told already, in its log line too.
type forwarded struct{ *problem }

// verbatim is JSON that is sent as it is.
type verbatim string

// fixedJSON is the gateway's marshaler: the one fixed form of JSON out, protobuf's JSON in. What comes in has been through
// [decodeBody].
type fixedJSON struct{ protojson.UnmarshalOptions }

func (fixedJSON) ContentType(any) string { return "application/json" }

func (fixedJSON) Marshal(v any) ([]byte, error) {
	switch v := v.(type) {
	case verbatim:
		return []byte(v), nil
	case proto.Message:
		return marshal(v)
	}
	return nil, fmt.Errorf("server: a response of type %T", v)
}

func (f fixedJSON) Unmarshal(data []byte, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("server: a request of type %T", v)
	}
	return f.UnmarshalOptions.Unmarshal(data, m)
}

func (f fixedJSON) NewDecoder(r io.Reader) runtime.Decoder {
	return runtime.DecoderFunc(func(v any) error {
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		return f.Unmarshal(data, v)
	})
}

func (fixedJSON) NewEncoder(io.Writer) runtime.Encoder {
	return runtime.EncoderFunc(func(any) error { return errors.New("server: nothing is streamed") })
}
