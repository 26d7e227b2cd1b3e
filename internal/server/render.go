package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	paymentsv1 "chargeonce/api/payments/v1"
	"chargeonce/internal/idempotency"
	"chargeonce/internal/payment"
)

// Renderer makes the bytes that a key's answer is stored as. They are what REST sends, the first time and every time after;
// Code is the HTTP status. gRPC's answer is read from them. Reconciliation uses it too, so that a key which it finishes
// is answered as a request would have been.
type Renderer struct{}

var _ payment.Renderer = Renderer{}

// Render implements payment.Renderer: 201 or, for a charge that is pending, 202 with the payment; or the refusal's problem
// document with its status.
func (Renderer) Render(r payment.Result) (idempotency.Stored, error) {
	if r.Refusal != nil {
		p, err := refusalProblem(*r.Refusal)
		if err != nil {
			return idempotency.Stored{}, err
		}
		body, err := p.body()
		return idempotency.Stored{Code: p.row().httpStatus, Body: body}, err
	}
	if r.Payment == nil {
		return idempotency.Stored{}, fmt.Errorf("server: a result with neither payment nor refusal can't be rendered")
	}
	body, err := marshal(toProto(*r.Payment))
	code := http.StatusCreated
	if r.Payment.Status == payment.Pending {
		code = http.StatusAccepted
	}
	return idempotency.Stored{Code: code, Body: body}, err
}

// Refused implements payment.Renderer.
func (Renderer) Refused(s idempotency.Stored) bool { return s.Code >= http.StatusBadRequest }

func refusalProblem(r payment.Refusal) (*problem, error) {
	switch r.Kind {
	case payment.CardDeclined:
		p := &problem{reason: paymentsv1.Reason_CARD_DECLINED}
		if isCode(r.Code) {
			p.metadata = map[string]string{"decline_code": r.Code}
		}
		return p, nil
	case payment.PSPRejected:
		return &problem{reason: paymentsv1.Reason_PSP_REJECTED}, nil
	case payment.Abandoned:
		return &problem{reason: paymentsv1.Reason_PAYMENT_ABANDONED}, nil
	}
	return nil, fmt.Errorf("server: the refusal %q can't be rendered", r.Kind)
}

// isCode keeps what is no code out of an answer: it comes from the PSP, and is stored for good.
func isCode(s string) bool {
	for _, c := range []byte(s) {
		if c != '_' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return 0 < len(s) && len(s) <= 64
}

// storedProblem reads a stored refusal back.
func storedProblem(s idempotency.Stored) (*problem, error) {
	var d document
	if err := json.Unmarshal(s.Body, &d); err != nil {
		return nil, fmt.Errorf("server: the stored refusal does not parse: %w", err)
	}
	return &problem{
		reason: paymentsv1.Reason(paymentsv1.Reason_value[d.Reason]), // 0 for one of a newer build: the document says all
		stored: &d, raw: s.Body,
	}, nil
}

// storedPayment reads a stored payment back. A newer server may have stored fields that this one does not know.
func storedPayment(s idempotency.Stored) (*paymentsv1.Payment, error) {
	p := &paymentsv1.Payment{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(s.Body, p); err != nil {
		return nil, fmt.Errorf("server: the stored payment does not parse: %w", err)
	}
	return p, nil
}

var statuses = map[payment.Status]paymentsv1.Payment_Status{
	payment.Pending:   paymentsv1.Payment_PENDING,
	payment.Failed:    paymentsv1.Payment_FAILED,
	payment.Succeeded: paymentsv1.Payment_SUCCEEDED,
	payment.Canceled:  paymentsv1.Payment_CANCELED,
	payment.Refunded:  paymentsv1.Payment_REFUNDED,
}

func toProto(p payment.Payment) *paymentsv1.Payment {
	return &paymentsv1.Payment{
		Id: p.ID, OrderId: p.OrderID, Amount: p.Amount, Currency: p.Currency, Status: statuses[p.Status], ChargeId: p.ChargeID,
		CreateTime: timestamppb.New(p.CreatedAt), UpdateTime: timestamppb.New(p.UpdatedAt),
	}
}

// marshal is the one form of JSON that REST sends: the contract's own field names, every field, in the contract's order, and no
// white space. protojson varies its white space from build to build, on purpose; compacting takes it out.
func marshal(m proto.Message) ([]byte, error) {
	text, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("server: response as JSON: %w", err)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		return nil, fmt.Errorf("server: response as JSON: %w", err)
	}
	return b.Bytes(), nil
}
