package server

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	paymentsv1 "chargeonce/api/payments/v1"
)

// maxBody is the most bytes that a request's body, or a gRPC message, may have. The rules allow less than 1 KiB.
const maxBody = 64 << 10

// webhookPath is where the PSP sends its events.
const webhookPath = "/webhooks/psp"

// routes is what the REST port serves.
func (s *Server) routes(gateway http.Handler) http.Handler {
	mux := http.NewServeMux()
	api := func(pattern string, body, query proto.Message) {
		mux.Handle(pattern, s.api(gateway, body, query))
	}
	api("POST /payments", &paymentsv1.CreatePaymentRequest{}, &emptypb.Empty{})
	api("GET /payments", nil, &paymentsv1.ListPaymentsRequest{})
	api("GET /payments/{id}", nil, &emptypb.Empty{})
	if s.cfg.Webhook != nil {
		mux.Handle("POST "+webhookPath, s.unlessReadOnly(s.cfg.Webhook))
	}
	mux.HandleFunc("GET /healthz", healthz)
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.HandleFunc("GET /problems/{reason}", s.problemPage)
	mux.HandleFunc("GET /openapi.json", s.openapi)
	mux.HandleFunc("GET /docs", s.docsPage)
	mux.HandleFunc("GET /docs/{file}", s.docsFile)
	return traced(s.guard(s.routed(mux)))
}

// guard sets the headers that every response has, and turns a panic into an answer.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secure(w, r)
		if span := trace.SpanContextFromContext(r.Context()); span.HasTraceID() {
			w.Header().Set("X-Trace-Id", span.TraceID().String())
		}
		defer func() {
			v := recover()
			if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(v) // net/http's own way to cut a response short
			}
			if v != nil {
				s.refuse(w, r, &panicError{value: v, stack: debug.Stack()})
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// routed answers what no pattern matches: http.ServeMux would do so in plain text.
func (s *Server) routed(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := mux.Handler(r)
		if pattern != "" {
			onRoute(r.Context(), pattern)
			mux.ServeHTTP(w, r)
			return
		}
		found := &headerOnly{header: http.Header{}}
		h.ServeHTTP(found, r)
		allow := found.header.Get("Allow")
		switch {
		case allow == "":
			s.refuse(w, r, &problem{reason: paymentsv1.Reason_NOT_FOUND})
		case r.Method == http.MethodOptions:
			w.Header().Set("Allow", allow+", OPTIONS")
			w.WriteHeader(http.StatusNoContent)
		default:
			w.Header().Set("Allow", allow+", OPTIONS")
			s.refuse(w, r, &problem{reason: paymentsv1.Reason_METHOD_NOT_ALLOWED})
		}
	})
}

// headerOnly keeps a response's header and drops the rest.
type headerOnly struct{ header http.Header }

func (h *headerOnly) Header() http.Header         { return h.header }
func (h *headerOnly) Write(p []byte) (int, error) { return len(p), nil }
func (h *headerOnly) WriteHeader(int)             {}

// api checks what only REST can get wrong, in the order of the interceptors: load, time, who is calling, and only then what
// was sent. The interceptors authenticate again, from memory; this check is here so that a stranger's body is not even read.
// body and query are what the request's body (nil: it has none) and query string are read as.
func (s *Server) api(gateway http.Handler, body, query proto.Message) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		if s.load.full() { // limitLoad decides; this look is here so that nothing is read in vain
			s.refuse(w, r, overloaded())
			return
		}
		if s.lacksCertificate(r) {
			s.refuse(w, r, errNoCertificate)
			return
		}
		timeout, asked, err := parseTimeout(r.Header.Values("Grpc-Timeout"))
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		var want time.Time
		if asked {
			want = start.Add(timeout)
		}
		deadline := s.deadlines.at(start, want)
		ctx, cancel := context.WithDeadline(r.Context(), deadline)
		defer cancel()
		who, err := s.auth.authenticate(ctx, r.Header.Values("Authorization"))
		if err == nil {
			err = s.rates.take(who.keyHash)
		}
		if err != nil {
			s.refuseSince(start, w, r.WithContext(ctx), err)
			return
		}
		sent, err := read(w, r, body)
		if err == nil {
			err = decodeQuery(r.URL.RawQuery, query)
		}
		if err != nil {
			s.refuseSince(start, w, r, err)
			return
		}
		ctx = withCall(r.Context(), &call{
			face: faceREST, keys: r.Header.Values("Idempotency-Key"), preferences: r.Header.Values("Prefer"), deadline: deadline,
		})
		gateway.ServeHTTP(w, asCall(ctx, r, sent))
	})
}

// asCall returns the request as the gateway gets it: with its body in the form of a message, and without what the gateway would act on
// by itself. A HEAD is a GET whose body net/http does not send.
func asCall(ctx context.Context, r *http.Request, body proto.Message) *http.Request {
	r = r.Clone(ctx)
	r.Body = messageBody{http.NoBody, body}
	r.Header.Del("Grpc-Timeout")
	r.Header.Del("Te")
	r.Header.Del("Accept")
	if r.Method == http.MethodHead {
		r.Method = http.MethodGet
	}
	return r
}

// messageBody is a body that was read already: the gateway's decoder takes the message.
type messageBody struct {
	io.ReadCloser
	message proto.Message
}

// read returns the request's body as a message of the kind of as; nil means that the request has no body, and one that is there is not
// looked at.
func read(w http.ResponseWriter, r *http.Request, as proto.Message) (proto.Message, error) {
	if as == nil {
		return nil, nil
	}
	if r.ContentLength == 0 && r.Header.Get("Content-Type") == "" {
		return nil, emptyBody
	}
	if !isJSON(r.Header) {
		return nil, &problem{reason: paymentsv1.Reason_UNSUPPORTED_MEDIA_TYPE}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, &problem{reason: paymentsv1.Reason_REQUEST_TOO_LARGE}
	case err != nil:
		p := invalid("The body could not be read to its end.")
		p.cause = err
		return nil, p
	}
	m := as.ProtoReflect().New().Interface()
	return m, decodeBody(body, m)
}

func isJSON(h http.Header) bool {
	if len(h.Values("Content-Type")) != 1 || h.Get("Content-Encoding") != "" {
		return false
	}
	media, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil || media != "application/json" {
		return false
	}
	for name, value := range params {
		if name != "charset" || !strings.EqualFold(value, "utf-8") {
			return false
		}
	}
	return true
}

// refuse answers with an error, and writes the request's log line unless observe has.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	s.refuseSince(time.Now(), w, r, err)
}

// refuseSince is refuse for a request that was worked on since start.
func (s *Server) refuseSince(start time.Time, w http.ResponseWriter, r *http.Request, err error) {
	var p *problem
	var told *forwarded
	if errors.As(err, &told) {
		p = told.problem
	} else {
		p = classify(r.Context(), err)
		s.tell(withCall(r.Context(), &call{face: faceREST}), routeOf(r), p, time.Since(start))
	}
	body, err := p.body()
	if err != nil {
		s.log.ErrorContext(r.Context(), "an error could not be rendered", "error", err)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	if err := writeProblem(w, p.document().Status, p.retryAfter, body); err != nil {
		s.log.InfoContext(r.Context(), "the client left before its answer was written", "error", err)
	}
}

// routeOf names the route that a request was meant for. A path, or a method, may be anything; a metric's labels must be few.
func routeOf(r *http.Request) string {
	onePayment := strings.HasPrefix(r.URL.Path, "/payments/")
	switch {
	case r.Method == http.MethodPost && r.URL.Path == "/payments":
		return "CreatePayment"
	case (r.Method == http.MethodGet || r.Method == http.MethodHead) && r.URL.Path == "/payments":
		return "ListPayments"
	case (r.Method == http.MethodGet || r.Method == http.MethodHead) && onePayment:
		return "GetPayment"
	}
	return "other"
}

func (s *Server) openapi(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	s.send(w, r, paymentsv1.OpenAPI)
}
