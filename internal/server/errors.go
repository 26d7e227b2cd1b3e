package server

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	paymentsv1 "chargeonce/api/payments/v1"
	"chargeonce/internal/idempotency"
	"chargeonce/internal/mysql"
	"chargeonce/internal/payment"
)

// row is a reason's line of the error table. The gRPC code, the HTTP status and the next action stand in errors.proto beside the
// reason, where clients read them too; the words stand below.
type row struct {
	code       codes.Code
	httpStatus int
	nextAction string
	title      string // what happened, in a few words
	detail     string // what happened, when nothing more exact may be told
	advice     string // what to do
}

// words says each reason in English: title, detail, advice.
var words = map[paymentsv1.Reason][3]string{
	paymentsv1.Reason_IDEMPOTENCY_KEY_MISSING: {"No Idempotency-Key",
		"The request carries no Idempotency-Key.",
		"Make one key per purchase intent, 1 to 255 printable ASCII characters, and send it with every attempt at that purchase."},
	paymentsv1.Reason_IDEMPOTENCY_KEY_INVALID: {"Bad Idempotency-Key",
		"The Idempotency-Key is empty, too long, malformed, or was sent twice.",
		"Send exactly one, bare (no space, comma or double quote) or as a string in double quotes."},
	paymentsv1.Reason_REQUEST_INVALID: {"Bad request",
		"The request breaks a rule of the contract.",
		"Mend what the violations name, then send it with the same key."},
	paymentsv1.Reason_REQUEST_TOO_LARGE: {"Body too large",
		"The body is larger than 64 KiB.",
		"Send a smaller one; a valid request is far below this."},
	paymentsv1.Reason_UNSUPPORTED_MEDIA_TYPE: {"Wrong media type",
		"The body must be application/json in UTF-8, without a content encoding.",
		"Set Content-Type: application/json."},
	paymentsv1.Reason_NOT_FOUND: {"No such route",
		"There is nothing at this path.",
		"See /openapi.json for what there is."},
	paymentsv1.Reason_METHOD_NOT_ALLOWED: {"Wrong method",
		"This path does not take this method.",
		"The Allow header names those that it takes."},
	paymentsv1.Reason_UNAUTHENTICATED: {"Who is calling?",
		"The API key is missing, unknown or revoked.",
		"Send Authorization: Bearer and your API key."},
	paymentsv1.Reason_PAYMENT_NOT_FOUND: {"No such payment",
		"You have no payment of this id.",
		"Check the id, and that the API key is the one that paid."},
	paymentsv1.Reason_IDEMPOTENCY_KEY_REUSED: {"Key used for another request",
		"This Idempotency-Key was used before, for another request. That one's answer stands; this request charged nothing.",
		"If this is another purchase, give it a key of its own. If it is the same one, send it exactly as the first time."},
	paymentsv1.Reason_IDEMPOTENCY_KEY_IN_PROGRESS: {"In progress",
		"Another request with this Idempotency-Key is being worked on.",
		"Wait as long as you were told, then send the same request with the same key."},
	paymentsv1.Reason_ORDER_IN_PROGRESS: {"Order in progress",
		"The same order is being paid under another key.",
		"Wait as long as you were told, then send the same request with the same key."},
	paymentsv1.Reason_ORDER_ALREADY_PAID: {"Order already paid",
		"The same order has been paid under another key. payment_id names the payment.",
		"Send nothing more for this order."},
	paymentsv1.Reason_PAYMENT_UNDER_REVIEW: {"Under review",
		"What the payment provider holds for this purchase is not what was asked for. A person is looking at it.",
		"Send nothing more for this purchase; ask support."},
	paymentsv1.Reason_CARD_DECLINED: {"Card declined",
		"The card was declined, and not charged.",
		"Ask the customer. Another attempt, or another card, is a new purchase intent with a new key."},
	paymentsv1.Reason_PSP_REJECTED: {"Refused by the payment provider",
		"The payment provider refused this charge for good. Nothing was charged.",
		"Another attempt is a new purchase intent with a new key."},
	paymentsv1.Reason_PAYMENT_ABANDONED: {"Given up",
		"The purchase had stood still for long and was given up. Nothing was charged, and nothing can be under this key.",
		"If the customer still wants it, make a new key."},
	paymentsv1.Reason_PSP_UNAVAILABLE: {"Payment provider unavailable",
		"The payment provider is known to be failing, so it was not asked.",
		"Wait as long as you were told, then send the same request with the same key."},
	paymentsv1.Reason_OVERLOADED: {"Too many requests",
		"There are too many requests, of yours or for this server.",
		"Wait as long as you were told, then send the same request with the same key."},
	paymentsv1.Reason_PSP_OUTCOME_UNKNOWN: {"Outcome unknown",
		"The payment provider failed or gave no answer. A charge may exist.",
		"Wait as long as you were told, then send the same request with the same key. A new key could charge twice."},
	paymentsv1.Reason_DEADLINE_EXCEEDED: {"Deadline over",
		"The request's time is over. A charge may exist.",
		"Wait as long as you were told, then send the same request with the same key. A new key could charge twice."},
	paymentsv1.Reason_UNAVAILABLE: {"Unavailable",
		"The service can't work on this at present.",
		"Wait as long as you were told, then send the same request with the same key."},
	paymentsv1.Reason_INTERNAL: {"Fault of the server",
		"The server failed. A charge may exist.",
		"Wait as long as you were told, then send the same request with the same key. The X-Trace-Id header tells support where to look."},
}

// rows is the error table, complete.
var rows = readRows()

func readRows() map[paymentsv1.Reason]row {
	out := map[paymentsv1.Reason]row{}
	values := paymentsv1.Reason(0).Descriptor().Values()
	for i := range values.Len() {
		value := values.Get(i)
		if value.Number() == 0 {
			continue
		}
		p, ok := proto.GetExtension(value.Options(), paymentsv1.E_Problem).(*paymentsv1.Problem)
		if !ok {
			continue // the contract's own test refuses a reason without its row
		}
		w := words[paymentsv1.Reason(value.Number())]
		out[paymentsv1.Reason(value.Number())] = row{
			code:       codes.Code(p.GetGrpcCode()),
			httpStatus: int(p.GetHttpStatus()),
			nextAction: strings.ToLower(p.GetNextAction().String()),
			title:      w[0], detail: w[1], advice: w[2],
		}
	}
	return out
}

// errNoAuth: the API key is missing, unknown or revoked. Which one is not told.
var errNoAuth = errors.New("no valid API key")

// errNoCertificate: the connection showed no client certificate, and one is needed.
var errNoCertificate = errors.New("no client certificate")

// panicError is a panic that was caught, with where it happened.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return "panic" }

// classify finds the row that an error belongs to. It is total: whatever it does not know is INTERNAL, and its text is for
// the log alone. ctx is the request's, which tells the caller's own time-out from the database's.
func classify(ctx context.Context, err error) *problem {
	var (
		told      *problem
		badKey    *idempotency.KeyError
		busy      *idempotency.InProgressError
		orderBusy *payment.OrderInProgressError
		orderPaid *payment.OrderPaidError
		undecided *payment.UndecidedError
	)
	switch {
	case errors.As(err, &told):
		return told
	case errors.Is(err, errNoCertificate):
		return &problem{reason: paymentsv1.Reason_UNAUTHENTICATED, detail: "This service needs a client certificate.", cause: err}
	case errors.Is(err, errNoAuth):
		return &problem{reason: paymentsv1.Reason_UNAUTHENTICATED, cause: err}
	case errors.Is(err, idempotency.ErrNoKey):
		return &problem{reason: paymentsv1.Reason_IDEMPOTENCY_KEY_MISSING, cause: err}
	case errors.As(err, &badKey):
		return &problem{reason: paymentsv1.Reason_IDEMPOTENCY_KEY_INVALID, detail: "The " + badKey.Error() + ".", cause: err}
	case errors.Is(err, payment.ErrNotFound):
		return &problem{reason: paymentsv1.Reason_PAYMENT_NOT_FOUND, cause: err}
	case errors.Is(err, idempotency.ErrReused):
		return &problem{reason: paymentsv1.Reason_IDEMPOTENCY_KEY_REUSED, cause: err}
	case errors.As(err, &busy):
		return &problem{reason: paymentsv1.Reason_IDEMPOTENCY_KEY_IN_PROGRESS, retryAfter: comeBackSoon(busy.LeaseLeft), cause: err}
	case errors.As(err, &orderBusy):
		return orderInProgress(orderBusy)
	case errors.As(err, &orderPaid):
		return &problem{reason: paymentsv1.Reason_ORDER_ALREADY_PAID, metadata: map[string]string{"payment_id": orderPaid.PaymentID}, cause: err}
	case errors.Is(err, idempotency.ErrParked):
		return &problem{reason: paymentsv1.Reason_PAYMENT_UNDER_REVIEW, cause: err}
	case errors.As(err, &undecided):
		return undecidedProblem(undecided)
	case ctx.Err() != nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)):
		return retryLater(paymentsv1.Reason_DEADLINE_EXCEEDED, 0, err)
	case mysql.Unavailable(err):
		return retryLater(paymentsv1.Reason_UNAVAILABLE, 0, err)
	}
	return retryLater(paymentsv1.Reason_INTERNAL, 0, err)
}

// orderInProgress: a lease ends soon. A charge that the PSP has only accepted may stay pending for long, and has none.
func orderInProgress(e *payment.OrderInProgressError) *problem {
	if e.LeaseLeft > 0 {
		return &problem{reason: paymentsv1.Reason_ORDER_IN_PROGRESS, retryAfter: comeBackSoon(e.LeaseLeft), cause: e}
	}
	return retryLater(paymentsv1.Reason_ORDER_IN_PROGRESS, 0, e)
}

// undecidedReasons: a client that has left reads no answer, so its row only has to be a safe one.
var undecidedReasons = map[payment.Undecided]paymentsv1.Reason{
	payment.PSPUnavailable: paymentsv1.Reason_PSP_UNAVAILABLE,
	payment.Overloaded:     paymentsv1.Reason_OVERLOADED,
	payment.OutcomeUnknown: paymentsv1.Reason_PSP_OUTCOME_UNKNOWN,
	payment.DeadlineOver:   paymentsv1.Reason_DEADLINE_EXCEEDED,
	payment.ClientLeft:     paymentsv1.Reason_DEADLINE_EXCEEDED,
}

func undecidedProblem(e *payment.UndecidedError) *problem {
	reason, ok := undecidedReasons[e.Why]
	if !ok {
		reason = paymentsv1.Reason_PSP_OUTCOME_UNKNOWN // the safe one: a charge may exist
	}
	return retryLater(reason, e.RetryAfter, e)
}

// retryLater is a problem that asks for the same key again, after the wait that somebody named, and some more so that not all
// come back at once, or else after 0.5 to 1.5 s.
func retryLater(reason paymentsv1.Reason, wait time.Duration, cause error) *problem {
	if wait <= 0 {
		wait = 500*time.Millisecond + rand.N(time.Second)
	} else {
		wait += rand.N(wait/10 + 1)
	}
	return &problem{reason: reason, retryAfter: wait, cause: cause}
}

// comeBackSoon is the wait for a key that somebody works on: until its lease is over or a second at the most, jittered downwards. Most
// are done long before their lease is.
func comeBackSoon(left time.Duration) time.Duration {
	most := min(max(left, 2*time.Millisecond), time.Second)
	return most/2 + rand.N(most/2+1)
}
