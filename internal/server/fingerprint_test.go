package server

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	paymentsv1 "chargeonce/api/payments/v1"
	"chargeonce/internal/idempotency"
)

type fataler interface{ Fatalf(string, ...any) }

func fingerprint(t fataler, m proto.Message) idempotency.Fingerprint {
	f, err := idempotency.NewFingerprint(idempotency.FingerprintVersion, paymentsv1.PaymentService_CreatePayment_FullMethodName, m)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return f
}

func decoded(t fataler, body string) *paymentsv1.CreatePaymentRequest {
	m := &paymentsv1.CreatePaymentRequest{}
	if err := decodeBody([]byte(body), m); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return m
}

var requests = rapid.Custom(func(t *rapid.T) *paymentsv1.CreatePaymentRequest {
	text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-c]{0,3}`)) // few letters: values that are alike, too
	return &paymentsv1.CreatePaymentRequest{
		OrderId: text.Draw(t, "order_id"),
		Amount: rapid.OneOf(
			rapid.Int64Range(1, math.MaxInt64),
			rapid.Int64Range(1<<53-2, 1<<53+2), // where a float64 can't tell neighbours apart
			rapid.Map(rapid.Int64Range(0, 18), func(n int64) int64 { return int64(math.Pow10(int(n))) }),
		).Draw(t, "amount"),
		Currency:      rapid.SampledFrom([]string{"EUR", "USD", "VND"}).Draw(t, "currency"),
		PaymentMethod: text.Draw(t, "payment_method"),
		Description:   text.Draw(t, "description"),
	}
})

// spell writes the request as JSON, each time in another of the forms that are taken for it.
func spell(t *rapid.T, m *paymentsv1.CreatePaymentRequest) string {
	space := func() string { return rapid.StringOfN(rapid.SampledFrom([]rune(" \t\r\n")), 0, 2, -1).Draw(t, "space") }
	name := func(a, b string) string { return rapid.SampledFrom([]string{a, b}).Draw(t, "name") }
	members := [][2]string{
		{name("order_id", "orderId"), spellString(t, m.GetOrderId())},
		{"amount", spellInt(t, m.GetAmount())},
		{"currency", spellString(t, m.GetCurrency())},
		{name("payment_method", "paymentMethod"), spellString(t, m.GetPaymentMethod())},
		{"description", spellString(t, m.GetDescription())},
	}
	if m.GetDescription() == "" { // not sent, null and empty are one
		members[4][1] = rapid.SampledFrom([]string{`""`, "null"}).Draw(t, "empty")
		members = members[:rapid.IntRange(4, 5).Draw(t, "members")]
	}
	members = rapid.Permutation(members).Draw(t, "order")
	parts := make([]string, len(members))
	for i, member := range members {
		parts[i] = space() + spellString(t, member[0]) + space() + ":" + space() + member[1] + space()
	}
	return space() + "{" + strings.Join(parts, ",") + "}" + space()
}

// spellString writes some characters as escapes.
func spellString(t *rapid.T, s string) string {
	var b strings.Builder
	for _, r := range s {
		plain, err := json.Marshal(string(r))
		if err != nil {
			t.Fatalf("%v", err)
		}
		if r < 0x10000 && rapid.Bool().Draw(t, "escaped") {
			fmt.Fprintf(&b, `\u%04x`, r)
			continue
		}
		b.Write(plain[1 : len(plain)-1])
	}
	return `"` + b.String() + `"`
}

// spellInt writes 1200 as 1200, 1200.00, 12e2, 1.2e+3, 12000E-1, and each of them in quotes.
func spellInt(t *rapid.T, n int64) string {
	digits := strconv.FormatInt(n, 10)
	zeros := len(digits) - len(strings.TrimRight(digits, "0"))
	forms := []string{digits, digits + ".0", digits + ".00", digits + "e0", digits + "0E-1"}
	if zeros > 0 {
		forms = append(forms, fmt.Sprintf("%se%d", digits[:len(digits)-zeros], zeros), fmt.Sprintf("%sE+%d", digits[:len(digits)-zeros], zeros))
	}
	if len(digits) > 1 {
		forms = append(forms, fmt.Sprintf("%s.%se%d", digits[:1], digits[1:], len(digits)-1))
	}
	form := rapid.SampledFrom(forms).Draw(t, "number")
	if rapid.Bool().Draw(t, "quoted") {
		return `"` + form + `"`
	}
	return form
}

// However a request is spelt, and over whichever face it comes, it is one request.
func TestCase05EverySpellingOfARequestHasOneFingerprint(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := requests.Draw(t, "request")
		want := fingerprint(t, m) // as gRPC brings it
		for range 2 {
			if body := spell(t, m); fingerprint(t, decoded(t, body)) != want {
				t.Fatalf("%s: another fingerprint than that of %v", body, m)
			}
		}
	})
}

func TestEveryChangeOfARequestChangesItsFingerprint(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := requests.Draw(t, "a"), requests.Draw(t, "b")
		if proto.Equal(a, b) != (fingerprint(t, a) == fingerprint(t, b)) {
			t.Fatalf("%v and %v: equal %v, their fingerprints %v", a, b, proto.Equal(a, b), !proto.Equal(a, b))
		}
		// One field alone, by as little as can be.
		fields := a.ProtoReflect().Descriptor().Fields()
		field := fields.Get(rapid.IntRange(0, fields.Len()-1).Draw(t, "field"))
		changed := proto.CloneOf(a)
		switch field.Name() {
		case "amount":
			changed.Amount--
		default:
			if text := a.ProtoReflect().Get(field).String(); text != "" && rapid.Bool().Draw(t, "cleared") {
				changed.ProtoReflect().Clear(field)
			} else {
				changed.ProtoReflect().Set(field, protoreflect.ValueOfString(text+" "))
			}
		}
		if fingerprint(t, a) == fingerprint(t, changed) {
			t.Fatalf("%v and %v have one fingerprint", a, changed)
		}
	})
}
