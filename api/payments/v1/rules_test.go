package paymentsv1_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"buf.build/go/protovalidate"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	paymentsv1 "chargeonce/api/payments/v1"
)

// violations returns what the contract's rules say against m, as "field: rule".
func violations(t *testing.T, m proto.Message) []string {
	t.Helper()
	err := protovalidate.Validate(m)
	if err == nil {
		return nil
	}
	var invalid *protovalidate.ValidationError
	if !errors.As(err, &invalid) {
		t.Fatalf("the rules can't be evaluated: %v", err)
	}
	var found []string
	for _, v := range invalid.Violations {
		found = append(found, protovalidate.FieldPathString(v.Proto.GetField())+": "+v.Proto.GetRuleId())
	}
	return found
}

func TestCreatePaymentRules(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*paymentsv1.CreatePaymentRequest)
		want   []string
	}{
		{"a good request", func(*paymentsv1.CreatePaymentRequest) {}, nil},
		{"the smallest and the largest", func(r *paymentsv1.CreatePaymentRequest) {
			r.OrderId, r.Amount, r.PaymentMethod, r.Description = "o", 1, "tok_v", ""
		}, nil},
		{"the longest", func(r *paymentsv1.CreatePaymentRequest) {
			r.OrderId, r.Amount = strings.Repeat("o", 64), math.MaxInt64
			r.PaymentMethod, r.Description = "tok_"+strings.Repeat("v", 124), strings.Repeat("đ", 255)
		}, nil},
		{"every sign of an order id", func(r *paymentsv1.CreatePaymentRequest) { r.OrderId = "Az09._:/-" }, nil},

		{"nothing set", func(r *paymentsv1.CreatePaymentRequest) { proto.Reset(r) },
			[]string{"order_id: required", "amount: required", "currency: required", "payment_method: required"}},
		{"order id too long", func(r *paymentsv1.CreatePaymentRequest) { r.OrderId = strings.Repeat("o", 65) },
			[]string{"order_id: string.max_len"}},
		{"order id with a space", func(r *paymentsv1.CreatePaymentRequest) { r.OrderId = "o 1" },
			[]string{"order_id: string.pattern"}},
		{"order id with a line break", func(r *paymentsv1.CreatePaymentRequest) { r.OrderId = "o-1\n" },
			[]string{"order_id: string.pattern"}},
		{"amount negative", func(r *paymentsv1.CreatePaymentRequest) { r.Amount = -1 },
			[]string{"amount: int64.gt"}},
		{"currency in lower case", func(r *paymentsv1.CreatePaymentRequest) { r.Currency = "eur" },
			[]string{"currency: string.pattern"}},
		{"currency too long", func(r *paymentsv1.CreatePaymentRequest) { r.Currency = "EURO" },
			[]string{"currency: string.pattern"}},
		{"currency that never was", func(r *paymentsv1.CreatePaymentRequest) { r.Currency = "ABC" },
			[]string{"currency: currency.iso_4217"}},
		{"currency that is no more", func(r *paymentsv1.CreatePaymentRequest) { r.Currency = "HRK" },
			[]string{"currency: currency.iso_4217"}},
		{"currency for tests", func(r *paymentsv1.CreatePaymentRequest) { r.Currency = "XTS" },
			[]string{"currency: currency.iso_4217"}},
		{"payment method without tok_", func(r *paymentsv1.CreatePaymentRequest) { r.PaymentMethod = "visa" },
			[]string{"payment_method: string.pattern"}},
		{"payment method too long", func(r *paymentsv1.CreatePaymentRequest) { r.PaymentMethod = "tok_" + strings.Repeat("v", 125) },
			[]string{"payment_method: string.max_len"}},
		{"a card number for a payment method", func(r *paymentsv1.CreatePaymentRequest) { r.PaymentMethod = "4242 4242-4242 4242" },
			[]string{"payment_method: payment_method.no_card_number", "payment_method: string.pattern"}},
		{"a card number dressed as a token", func(r *paymentsv1.CreatePaymentRequest) { r.PaymentMethod = "tok_4242424242424242" },
			[]string{"payment_method: payment_method.no_card_number"}},
		{"description too long", func(r *paymentsv1.CreatePaymentRequest) { r.Description = strings.Repeat("đ", 256) },
			[]string{"description: string.max_len"}},
		{"a card number in the description", func(r *paymentsv1.CreatePaymentRequest) { r.Description = "card 4242 4242 4242 4242, thanks" },
			[]string{"description: description.no_card_number"}},
		{"a telephone number in the description", func(r *paymentsv1.CreatePaymentRequest) { r.Description = "call 0084 24 3825 96" }, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := &paymentsv1.CreatePaymentRequest{OrderId: "o-1", Amount: 1250, Currency: "EUR", PaymentMethod: "tok_visa", Description: "a book"}
			tt.change(r)
			if diff := cmp.Diff(tt.want, violations(t, r)); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadRules(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		request proto.Message
		want    []string
	}{
		{"get by id", &paymentsv1.GetPaymentRequest{Id: "pay_01998a3e-7c1d-7f2a-8b3c-0123456789ab"}, nil},
		{"get without an id", &paymentsv1.GetPaymentRequest{}, []string{"id: required"}},
		{"get by something else", &paymentsv1.GetPaymentRequest{Id: "pay_1"}, []string{"id: string.pattern"}},
		{"list all", &paymentsv1.ListPaymentsRequest{}, nil},
		{"list more than a page can hold", &paymentsv1.ListPaymentsRequest{PageSize: 1000, OrderId: "o-1"}, nil},
		{"list a negative number", &paymentsv1.ListPaymentsRequest{PageSize: -1}, []string{"page_size: int32.gte"}},
		{"list by a bad order id", &paymentsv1.ListPaymentsRequest{OrderId: "o 1"}, []string{"order_id: string.pattern"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, violations(t, tt.request)); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}
