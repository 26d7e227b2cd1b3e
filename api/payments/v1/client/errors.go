package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	paymentsv1 "chargeonce/api/payments/v1"
)

// Error is what a request, or one try at it, ended with other than success. NextAction says what to do and is always set; it
// is RETRY_SAME_KEY where the service said nothing.
type Error struct {
	// Reason is the service's name for the error (paymentsv1.Reason as text). It is empty when the service did not speak: the
	// connection failed, the try's time was over, or a proxy answered.
	Reason     string
	NextAction paymentsv1.NextAction
	// HTTPStatus is set over REST, GRPCCode over gRPC; both are zero when there was no answer at all.
	HTTPStatus int
	GRPCCode   codes.Code
	// Detail is the service's sentence for a person.
	Detail string
	// RetryAfter is the wait that was asked for; 0 if none was.
	RetryAfter time.Duration
	// DeclineCode is the PSP's code of a decline, PaymentID the payment that the error is about, where the service gave them.
	DeclineCode, PaymentID string
	// Violations say which fields are wrong.
	Violations []Violation
	// Replayed: the service gave this answer to the key before.
	Replayed bool
	// TraceID tells the service's operators where to look.
	TraceID string
	// Cause is the error of the connection or the library, if any.
	Cause error
}

// Violation says what is wrong with one field of a request.
type Violation struct {
	Field, Description string
}

// Error implements error.
func (e *Error) Error() string {
	parts := []string{e.label()}
	if e.DeclineCode != "" {
		parts = append(parts, "("+e.DeclineCode+")")
	}
	if e.Detail != "" {
		parts = append(parts, e.Detail)
	}
	for _, v := range e.Violations {
		parts = append(parts, v.Field+": "+v.Description+".")
	}
	if e.Cause != nil {
		parts = append(parts, e.Cause.Error())
	}
	return strings.Join(parts, " ")
}

// label names the error by the best that is known of it.
func (e *Error) label() string {
	switch {
	case e.Reason != "":
		return e.Reason
	case e.HTTPStatus != 0:
		return fmt.Sprintf("HTTP %d without a reason", e.HTTPStatus)
	case e.GRPCCode != codes.OK:
		return e.GRPCCode.String() + " without a reason"
	}
	return "no answer"
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Cause }

// TimedOut reports whether the try ended because its time was over.
func (e *Error) TimedOut() bool { return errors.Is(e.Cause, context.DeadlineExceeded) }

// unheard is the error of a try that the service did not answer: the same key again, whatever happened.
func unheard(cause error) *Error {
	return &Error{NextAction: paymentsv1.NextAction_RETRY_SAME_KEY, Cause: cause}
}

// nextAction reads the wire's word. One that is missing or unknown is taken for the only action that can't charge twice.
func nextAction(word string) paymentsv1.NextAction {
	action := paymentsv1.NextAction(paymentsv1.NextAction_value[strings.ToUpper(word)])
	if action == paymentsv1.NextAction_NEXT_ACTION_UNSPECIFIED {
		return paymentsv1.NextAction_RETRY_SAME_KEY
	}
	return action
}

// ErrNoTriesLeft: as many tries were made as [Config.MaxTries] allows.
var ErrNoTriesLeft = errors.New("no tries left")

// ErrWaitTooLong: the wait that was asked for is longer than the time left, or than [Config.MaxWait].
var ErrWaitTooLong = errors.New("the wait is too long")

// gaveUp ends a series of tries that may go on another time.
type gaveUp struct {
	tries int
	why   error  // the context's error, ErrNoTriesLeft or ErrWaitTooLong
	last  *Error // nil if no try was made
}

func (e *gaveUp) Error() string {
	if e.last == nil {
		return fmt.Sprintf("gave up before the first try: %v", e.why)
	}
	return fmt.Sprintf("gave up after %d tries: %v; last: %v", e.tries, e.why, e.last)
}

func (e *gaveUp) Unwrap() []error {
	if e.last == nil {
		return []error{e.why}
	}
	return []error{e.why, e.last}
}

// OutcomeUnknownError says that [Client.Pay] gave up and does not know whether the purchase is charged. Keep Intent and pay it
// again later: the service then gives the one final answer. A new key in its place could charge twice.
//
// Its chain holds why it gave up (context.DeadlineExceeded, context.Canceled, [ErrNoTriesLeft], [ErrWaitTooLong]) and the last
// try's [*Error].
type OutcomeUnknownError struct {
	Intent Intent
	// Tries is how many were made by this call of Pay.
	Tries int
	// RetryAfter is how long the service asked to wait before the next try; 0 if it did not.
	RetryAfter time.Duration
	err        error
}

// Error implements error. It does not show the key.
func (e *OutcomeUnknownError) Error() string {
	return "client: the outcome of the purchase is unknown, pay the same intent again: " + e.err.Error()
}

// Unwrap gives why.
func (e *OutcomeUnknownError) Unwrap() error { return e.err }
