package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	paymentsv1 "chargeonce/api/payments/v1"
)

// answerGrace is how long an answer may take to be written after the request's deadline, when the handler gives it.
const answerGrace = time.Second

// newGateway makes REST requests into calls of service. Of the request's headers only Authorization goes along as metadata (see
// [call] for the others), of the response's only those that are named here come back: gRPC's prefixes are nobody's business.
func newGateway(ctx context.Context, service paymentsv1.PaymentServiceServer, refuse func(http.ResponseWriter, *http.Request, error)) (http.Handler, error) {
	mux := runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, fixedJSON{}),
		runtime.WithIncomingHeaderMatcher(func(string) (string, bool) { return "", false }),
		runtime.WithOutgoingHeaderMatcher(outgoingHeader),
		runtime.WithOutgoingTrailerMatcher(func(string) (string, bool) { return "", false }),
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
	if err := paymentsv1.RegisterPaymentServiceHandlerServer(ctx, mux, service); err != nil {
		return nil, fmt.Errorf("server: gateway: %w", err)
	}
	return mux, nil
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
	if stored := callOf(ctx).stored; stored != nil {
		w.Header().Set("Content-Length", strconv.Itoa(len(stored.Body)))
		w.WriteHeader(stored.Code)
	}
	return nil
}

// storedBody puts the stored bytes in the place of the message that was read from them.
func storedBody(ctx context.Context, m proto.Message) (any, error) {
	if stored := callOf(ctx).stored; stored != nil {
		return verbatim(stored.Body), nil
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
	var p *problem
	if errors.As(err, &p) {
		refuse(w, r, &forwarded{p})
		return
	}
	refuse(w, r, problemOf(status.Convert(err))) // the gateway's own, of which nobody has told
}

// forwarded marks a problem that observe has told already, in its log line too.
type forwarded struct{ *problem }

// verbatim is JSON that is sent as it is.
type verbatim []byte

// fixedJSON is the gateway's marshaler: the one fixed form of JSON out. What comes in was read by [decodeBody].
type fixedJSON struct{}

func (fixedJSON) ContentType(any) string { return "application/json" }

func (fixedJSON) Marshal(v any) ([]byte, error) {
	switch v := v.(type) {
	case verbatim:
		return v, nil
	case proto.Message:
		return marshal(v)
	}
	return nil, fmt.Errorf("server: a response of type %T", v)
}

func (fixedJSON) Unmarshal([]byte, any) error {
	return errors.New("server: the gateway reads no bytes")
}

func (fixedJSON) NewDecoder(r io.Reader) runtime.Decoder {
	return runtime.DecoderFunc(func(v any) error {
		body, ok := r.(messageBody)
		into, isMessage := v.(proto.Message)
		if !ok || !isMessage {
			return fmt.Errorf("server: a body of type %T for a %T", r, v)
		}
		proto.Merge(into, body.message)
		return nil
	})
}

func (fixedJSON) NewEncoder(io.Writer) runtime.Encoder {
	return runtime.EncoderFunc(func(any) error { return errors.New("server: nothing is streamed") })
}
