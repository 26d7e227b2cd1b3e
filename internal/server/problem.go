package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	paymentsv1 "chargeonce/api/payments/v1"
)

// domain is ErrorInfo.domain of every error of this service.
const domain = "chargeonce"

// problem is one error on its way to a client. It becomes a gRPC status or an RFC 9457 document, which say the same.
type problem struct {
	reason     paymentsv1.Reason
	detail     string        // may be shown; empty: the row's
	retryAfter time.Duration // set if and only if the row asks for the same key again
	metadata   map[string]string
	violations []violation
	code       codes.Code // over gRPC; OK: the row's
	cause      error      // for the log alone
	// stored is the document as it was kept, for an error that is its key's final answer.
	stored *document
	raw    []byte
}

// violation says what is wrong with one field.
type violation struct {
	Field       string `json:"field"`
	Description string `json:"description"`
}

// document is the body of an error over REST (RFC 9457). The first four members are the RFC's, the others ours. Type is
// relative to the server, so that what one server stored, another one sends.
type document struct {
	Type         string      `json:"type"`
	Title        string      `json:"title"`
	Status       int         `json:"status"`
	Detail       string      `json:"detail"`
	Reason       string      `json:"reason"`
	NextAction   string      `json:"next_action"`
	RetryAfterMS int64       `json:"retry_after_ms,omitempty"`
	DeclineCode  string      `json:"decline_code,omitempty"`
	PaymentID    string      `json:"payment_id,omitempty"`
	Violations   []violation `json:"violations,omitempty"`
}

func (p *problem) Error() string {
	if p.cause != nil {
		return fmt.Sprintf("%s: %v", p.reason, p.cause)
	}
	return fmt.Sprintf("%s: %s", p.reason, p.text())
}

// Unwrap gives the cause.
func (p *problem) Unwrap() error { return p.cause }

func (p *problem) row() row { return rows[p.reason] }

func (p *problem) text() string {
	if p.detail != "" {
		return p.detail
	}
	return p.row().detail
}

// invalid is a REQUEST_INVALID that names fields.
func invalid(detail string, violations ...violation) *problem {
	return &problem{reason: paymentsv1.Reason_REQUEST_INVALID, detail: detail, violations: violations}
}

// document says the problem over REST.
func (p *problem) document() document {
	if p.stored != nil {
		return *p.stored
	}
	r := p.row()
	return document{
		Type: "/problems/" + p.reason.String(), Title: r.title, Status: r.httpStatus, Detail: p.text(),
		Reason: p.reason.String(), NextAction: r.nextAction, RetryAfterMS: ceil(p.retryAfter, time.Millisecond),
		DeclineCode: p.metadata["decline_code"], PaymentID: p.metadata["payment_id"], Violations: p.violations,
	}
}

// grpcCode is the problem's code over gRPC; OK for what REST alone can answer.
func (p *problem) grpcCode() codes.Code {
	switch {
	case p.code != codes.OK:
		return p.code
	case p.stored != nil:
		return codes.FailedPrecondition // of every error that is stored; one of a newer build has no row here
	}
	return p.row().code
}

// GRPCStatus says the problem over gRPC. Package status looks for this method.
func (p *problem) GRPCStatus() *status.Status {
	doc := p.document()
	code := p.grpcCode()
	info := &errdetails.ErrorInfo{Reason: doc.Reason, Domain: domain, Metadata: map[string]string{"next_action": doc.NextAction}}
	for _, extra := range []struct{ name, value string }{{"decline_code", doc.DeclineCode}, {"payment_id", doc.PaymentID}} {
		if extra.value != "" {
			info.Metadata[extra.name] = extra.value
		}
	}
	details := []protoadapt.MessageV1{info}
	if doc.RetryAfterMS > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Duration(doc.RetryAfterMS) * time.Millisecond)})
	}
	if len(doc.Violations) > 0 {
		bad := &errdetails.BadRequest{}
		for _, v := range doc.Violations {
			bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{Field: v.Field, Description: v.Description})
		}
		details = append(details, bad)
	}
	st, err := status.New(code, doc.Detail).WithDetails(details...)
	if err != nil {
		return status.New(code, doc.Detail) // only a status OK takes no details, and a problem has another code
	}
	return st
}

// problemOf makes a problem of a status that the gateway or the gRPC library made. Its text stays here.
func problemOf(st *status.Status) *problem {
	switch st.Code() {
	case codes.InvalidArgument:
		return &problem{reason: paymentsv1.Reason_REQUEST_INVALID, cause: st.Err()}
	case codes.NotFound, codes.Unimplemented:
		return &problem{reason: paymentsv1.Reason_NOT_FOUND, cause: st.Err()}
	case codes.DeadlineExceeded, codes.Canceled:
		return retryLater(paymentsv1.Reason_DEADLINE_EXCEEDED, 0, st.Err())
	case codes.Unavailable:
		return retryLater(paymentsv1.Reason_UNAVAILABLE, 0, st.Err())
	}
	return retryLater(paymentsv1.Reason_INTERNAL, 0, st.Err())
}

// body gives the document's bytes. Those that were stored are given as they were stored.
func (p *problem) body() ([]byte, error) {
	if p.raw != nil {
		return p.raw, nil
	}
	return p.document().marshal()
}

// marshal gives the document's bytes, always the same for the same document.
func (d document) marshal() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(d); err != nil {
		return nil, fmt.Errorf("problem document: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

const problemType = "application/problem+json"

// write sends a problem document.
func writeProblem(w http.ResponseWriter, httpStatus int, retryAfter time.Duration, body []byte) error {
	h := w.Header()
	h.Set("Content-Type", problemType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if retryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(ceil(retryAfter, time.Second), 10))
	}
	if httpStatus == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="`+domain+`"`)
	}
	w.WriteHeader(httpStatus)
	_, err := w.Write(body)
	return err
}

// ceil counts units, rounded up: a client that waits for what it is told must not come too early.
func ceil(d, unit time.Duration) int64 { return int64((d + unit - 1) / unit) }
