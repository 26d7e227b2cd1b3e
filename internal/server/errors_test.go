package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	paymentsv1 "chargeonce/api/payments/v1"
	"chargeonce/internal/idempotency"
	"chargeonce/internal/payment"
)

func TestEveryReasonHasItsWords(t *testing.T) {
	t.Parallel()
	for number, name := range paymentsv1.Reason_name {
		if number == 0 {
			continue
		}
		r := rows[paymentsv1.Reason(number)]
		if r.title == "" || r.detail == "" || r.advice == "" {
			t.Errorf("%s: title %q, detail %q, advice %q", name, r.title, r.detail, r.advice)
		}
	}
	if len(rows) != len(paymentsv1.Reason_name)-1 || len(words) != len(rows) {
		t.Errorf("%d reasons, %d rows, %d words", len(paymentsv1.Reason_name)-1, len(rows), len(words))
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
	defer cancel()
	alive := context.Background()
	tests := []struct {
		name string
		ctx  context.Context
		err  error
		want paymentsv1.Reason
		// least and most are the wait; both zero: none.
		least, most time.Duration
	}{
		{"no key", alive, idempotency.ErrNoKey, paymentsv1.Reason_IDEMPOTENCY_KEY_MISSING, 0, 0},
		{"in progress, a long lease", alive, &idempotency.InProgressError{LeaseLeft: time.Minute},
			paymentsv1.Reason_IDEMPOTENCY_KEY_IN_PROGRESS, 500 * time.Millisecond, time.Second},
		{"in progress, a short lease", alive, &idempotency.InProgressError{LeaseLeft: 100 * time.Millisecond},
			paymentsv1.Reason_IDEMPOTENCY_KEY_IN_PROGRESS, 50 * time.Millisecond, 100 * time.Millisecond},
		{"in progress, no lease left", alive, &idempotency.InProgressError{},
			paymentsv1.Reason_IDEMPOTENCY_KEY_IN_PROGRESS, time.Millisecond, 2 * time.Millisecond},
		{"order in progress, a short lease", alive, &payment.OrderInProgressError{LeaseLeft: 100 * time.Millisecond},
			paymentsv1.Reason_ORDER_IN_PROGRESS, 50 * time.Millisecond, 100 * time.Millisecond},
		{"order in progress, its charge pending", alive, &payment.OrderInProgressError{},
			paymentsv1.Reason_ORDER_IN_PROGRESS, 500 * time.Millisecond, 1500 * time.Millisecond},
		{"order paid", alive, &payment.OrderPaidError{PaymentID: "pay_1"}, paymentsv1.Reason_ORDER_ALREADY_PAID, 0, 0},
		{"breaker open, told when", alive, &payment.UndecidedError{Why: payment.PSPUnavailable, RetryAfter: 10 * time.Second},
			paymentsv1.Reason_PSP_UNAVAILABLE, 10 * time.Second, 11 * time.Second},
		{"unknown, not told when", alive, fmt.Errorf("wrapped: %w", &payment.UndecidedError{Why: payment.OutcomeUnknown}),
			paymentsv1.Reason_PSP_OUTCOME_UNKNOWN, 500 * time.Millisecond, 1500 * time.Millisecond},
		{"unknown because the database gave no answer", alive, &payment.UndecidedError{Why: payment.OutcomeUnknown, Err: io.EOF},
			paymentsv1.Reason_PSP_OUTCOME_UNKNOWN, 500 * time.Millisecond, 1500 * time.Millisecond},
		{"a reason that is newer", alive, &payment.UndecidedError{Why: "new"},
			paymentsv1.Reason_PSP_OUTCOME_UNKNOWN, 500 * time.Millisecond, 1500 * time.Millisecond},
		{"the client left", alive, &payment.UndecidedError{Why: payment.ClientLeft},
			paymentsv1.Reason_DEADLINE_EXCEEDED, 500 * time.Millisecond, 1500 * time.Millisecond},
		{"the caller's time is over", over, fmt.Errorf("read: %w", context.DeadlineExceeded),
			paymentsv1.Reason_DEADLINE_EXCEEDED, 500 * time.Millisecond, 1500 * time.Millisecond},
		{"the database's time is over", alive, fmt.Errorf("claim: %w", context.DeadlineExceeded),
			paymentsv1.Reason_UNAVAILABLE, 500 * time.Millisecond, 1500 * time.Millisecond},
		{"what nobody knows", alive, errors.New("a secret inner text"),
			paymentsv1.Reason_INTERNAL, 500 * time.Millisecond, 1500 * time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for range 100 { // the waits are drawn
				p := classify(tt.ctx, tt.err)
				if p.reason != tt.want || p.retryAfter < tt.least || p.retryAfter > tt.most {
					t.Fatalf("%s after %v, want %s after %v to %v", p.reason, p.retryAfter, tt.want, tt.least, tt.most)
				}
				if p.text() != rows[tt.want].detail {
					t.Fatalf("told: %q", p.text())
				}
			}
		})
	}
}

// A status that gRPC's library made has no reason, and its text is not for clients.
func TestAStatusWithoutAReasonGetsASafeOne(t *testing.T) {
	t.Parallel()
	want := map[codes.Code]paymentsv1.Reason{
		codes.InvalidArgument: paymentsv1.Reason_REQUEST_INVALID, codes.NotFound: paymentsv1.Reason_NOT_FOUND,
		codes.Unimplemented: paymentsv1.Reason_NOT_FOUND, codes.DeadlineExceeded: paymentsv1.Reason_DEADLINE_EXCEEDED,
		codes.Canceled: paymentsv1.Reason_DEADLINE_EXCEEDED, codes.Unavailable: paymentsv1.Reason_UNAVAILABLE,
	}
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		reason, ok := want[code]
		if !ok {
			reason = paymentsv1.Reason_INTERNAL
		}
		p := problemOf(status.New(code, "an inner text"))
		if p.reason != reason || p.text() == "an inner text" || (p.retryAfter > 0) != (p.row().nextAction == "retry_same_key") {
			t.Errorf("%s: %s, %q, wait %v; want %s", code, p.reason, p.text(), p.retryAfter, reason)
		}
	}
}

// A refusal that a newer server stored, with a reason that this build has never heard of, is told as it was stored.
func TestAStoredRefusalOfANewerBuildIsToldAsItIs(t *testing.T) {
	t.Parallel()
	const body = `{"type":"/problems/NEWER","title":"Newer","status":402,"detail":"Something new.","reason":"NEWER","next_action":"new_key","more":1}`
	p, err := storedProblem(idempotency.Stored{Code: 402, Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.body()
	if err != nil || string(got) != body {
		t.Errorf("over REST: %s, %v", got, err)
	}
	st := p.GRPCStatus()
	info, ok := st.Details()[0].(*errdetails.ErrorInfo)
	if st.Code() != codes.FailedPrecondition || st.Message() != "Something new." || !ok ||
		info.GetReason() != "NEWER" || info.GetMetadata()["next_action"] != "new_key" {
		t.Errorf("over gRPC: %v, %v", st, info)
	}

	w := httptest.NewRecorder()
	s := &Server{log: slog.New(slog.DiscardHandler)}
	forwardError(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/payments", nil), metadata.MD{}, p, s.refuse)
	if w.Code != http.StatusPaymentRequired || w.Body.String() != body {
		t.Errorf("through the gateway: %d %s", w.Code, w.Body)
	}
}

func TestRenderIsTheSameEveryTime(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 6, 0, 0, 123e6, time.UTC)
	paid := payment.Payment{UserID: 7, ID: "pay_1", OrderID: "o<&>1", Amount: 1 << 53, Currency: "EUR", Status: payment.Succeeded,
		ChargeID: "ch_1", CreatedAt: at, UpdatedAt: at}
	pending := paid
	pending.Status = payment.Pending
	tests := []struct {
		name   string
		result payment.Result
		code   int
		body   string
	}{
		{"charged", payment.Result{Payment: &paid}, 201, `{"id":"pay_1","order_id":"o<&>1","amount":"9007199254740992","currency":"EUR",` +
			`"status":"SUCCEEDED","charge_id":"ch_1","create_time":"2026-11-30T06:00:00.123Z","update_time":"2026-11-30T06:00:00.123Z"}`},
		{"pending", payment.Result{Payment: &pending}, 202, `{"id":"pay_1","order_id":"o<&>1","amount":"9007199254740992","currency":"EUR",` +
			`"status":"PENDING","charge_id":"ch_1","create_time":"2026-11-30T06:00:00.123Z","update_time":"2026-11-30T06:00:00.123Z"}`},
		{"declined", payment.Result{Refusal: &payment.Refusal{Kind: payment.CardDeclined, Code: "do_not_honor"}}, 402,
			`{"type":"/problems/CARD_DECLINED","title":"Card declined","status":402,"detail":"The card was declined, and not charged.",` +
				`"reason":"CARD_DECLINED","next_action":"new_key","decline_code":"do_not_honor"}`},
		{"declined with what is no code", payment.Result{Refusal: &payment.Refusal{Kind: payment.CardDeclined, Code: "4242 4242"}}, 402,
			`{"type":"/problems/CARD_DECLINED","title":"Card declined","status":402,"detail":"The card was declined, and not charged.",` +
				`"reason":"CARD_DECLINED","next_action":"new_key"}`},
	}
	for _, tt := range tests {
		for range 20 {
			got, err := Renderer{}.Render(tt.result)
			if err != nil {
				t.Fatal(err)
			}
			if got.Code != tt.code || string(got.Body) != tt.body {
				t.Errorf("%s: %d %s, want %d %s", tt.name, got.Code, got.Body, tt.code, tt.body)
			}
			if (Renderer{}).Refused(got) != (tt.result.Refusal != nil) {
				t.Errorf("%s: told from a payment wrongly", tt.name)
			}
		}
	}
	if _, err := (Renderer{}).Render(payment.Result{}); err == nil {
		t.Error("a result of nothing was rendered")
	}
}
