package psp

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// spoken is a body read without any of this package's code.
type spoken struct {
	Key    string `json:"idempotency_key"`
	Result string `json:"result"`
	Status string `json:"status"`
	Charge struct {
		Key    string `json:"idempotency_key"`
		Status string `json:"status"`
	} `json:"charge"`
	Error struct {
		Type string `json:"type"`
		Key  string `json:"idempotency_key"`
	} `json:"error"`
}

// saysFinal reads the contract once more: whether the answer is a verdict on key, and of which kind.
func saysFinal(op operation, status int, body, key string) (Kind, bool) {
	var s spoken
	if json.Unmarshal([]byte(body), &s) != nil {
		return Unknown, false
	}
	statuses := map[string]Kind{"pending": Pending, "failed": Failed, "succeeded": Succeeded, "canceled": Voided, "refunded": Refunded}
	if op == opCharge {
		switch {
		case status == 200, status == 201 && (s.Status == "succeeded" || s.Status == "pending"):
			kind, ok := statuses[s.Status]
			return kind, ok && s.Key == key
		case status == 402 && s.Error.Type == "card_declined":
			return Declined, s.Error.Key == key
		case status == 422 && s.Error.Type == "charge_rejected":
			return Rejected, s.Error.Key == key
		case status == 410 && s.Error.Type == "key_canceled":
			return Cancelled, s.Error.Key == key
		}
		return Unknown, false
	}
	if status != 200 || s.Key != key {
		return Unknown, false
	}
	switch s.Result {
	case "charged":
		kind, ok := statuses[s.Charge.Status]
		return kind, ok && s.Charge.Key == key
	case "declined":
		return Declined, s.Error.Type == "card_declined"
	case "rejected":
		return Rejected, s.Error.Type == "charge_rejected"
	case "canceled":
		return Cancelled, true
	}
	return Unknown, false
}

// drawAnswer draws an answer near the contract's: a row of the table and a body to match, for this key or another, or with the
// row's status exchanged; or any status with any body.
func drawAnswer(t *rapid.T) (op operation, status int, body string) {
	rows := slices.SortedFunc(maps.Keys(documented), func(a, b response) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	row := rapid.SampledFrom(rows).Filter(func(r response) bool { return r.op != opGet && r.op != opStatement }).Draw(t, "row")
	status = rapid.OneOf(rapid.Just(row.status), rapid.SampledFrom([]int{200, 201, 402, 404, 409, 410, 422}), rapid.IntRange(200, 599)).Draw(t, "status")
	if rapid.Bool().Draw(t, "any body") {
		return row.op, status, drawBody(t)
	}
	keys := rapid.SampledFrom([]string{testKey, testKey, "key-2"})
	key, innerKey := keys.Draw(t, "key"), keys.Draw(t, "inner key")
	word, detail, _ := strings.Cut(row.says, ":")
	switch {
	case word == "charge":
		body = chargeJSON(key, detail)
	case row.op == opCharge || row.status == 404:
		body = errorJSON(row.says, "c", key)
	case word == "charged":
		body = byKeyJSON(key, word, `, "charge": `+chargeJSON(innerKey, detail))
	default:
		body = byKeyJSON(key, word, fmt.Sprintf(`, "error": {"type": %q, "code": "c", "idempotency_key": %q}`, detail, innerKey))
	}
	return row.op, status, body
}

// drawBody draws a body out of the contract's words, put together at random, sometimes damaged; or any bytes.
func drawBody(t *rapid.T) string {
	key := rapid.SampledFrom([]string{testKey, testKey, testKey, "key-2", ""}).Draw(t, "key")
	status := rapid.SampledFrom([]string{"succeeded", "pending", "failed", "canceled", "refunded", "disputed", ""}).Draw(t, "charge status")
	kind := rapid.SampledFrom([]string{"card_declined", "charge_rejected", "key_canceled", "key_in_progress", "idempotency_mismatch",
		"invalid_request", "unauthorized", "key_not_found", "charge_not_found", ""}).Draw(t, "error type")
	result := rapid.SampledFrom([]string{"charged", "declined", "rejected", "canceled", "processing", "frozen", ""}).Draw(t, "result")
	innerKey := rapid.SampledFrom([]string{testKey, testKey, "key-2"}).Draw(t, "inner key")
	charge := chargeJSON(innerKey, status)
	inner := fmt.Sprintf(`, "charge": %s, "error": {"type": %q, "code": "c", "idempotency_key": %q}`, charge, kind, innerKey)
	body := rapid.SampledFrom([]string{
		chargeJSON(key, status), errorJSON(kind, "c", key), byKeyJSON(key, result, inner), byKeyJSON(key, result, ""),
		rapid.String().Draw(t, "any text"), "null", "[]", "{}",
	}).Draw(t, "body")
	if body != "" && rapid.IntRange(0, 3).Draw(t, "damage") == 0 {
		at := rapid.IntRange(0, len(body)-1).Draw(t, "at")
		body = rapid.SampledFrom([]string{body[:at], body[:at] + body[at+1:], strings.ToUpper(body)}).Draw(t, "damaged")
	}
	return body
}

// TestNoAnswerIsFinalUnlessDocumentedAndOnThisKey compares the table with a second reading of the contract, over answers drawn at
// random.
func TestNoAnswerIsFinalUnlessDocumentedAndOnThisKey(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		op, status, body := drawAnswer(t)
		q := call{op: op, key: testKey, want: testRequest.Expect()}
		v := classify(q, answer{sent: true, status: status, body: []byte(body)})
		kind, ok := saysFinal(q.op, status, body, testKey)
		if v.kind.Final() && (!ok || v.kind != kind) {
			t.Fatalf("%s answered %d %s: took it for %v", q.op, status, body, v.kind)
		}
		if v.kind.HasCharge() && (v.charge == nil || v.charge.IdempotencyKey != testKey) {
			t.Fatalf("%s answered %d %s: %v with %+v", q.op, status, body, v.kind, v.charge)
		}
		if v.kind == NotSent {
			t.Fatalf("%s answered %d %s: not sent?", q.op, status, body)
		}
	})
}

// TestParseChargeReadsAllOrNothing: no bytes make it panic, and what it accepts has all that others rely on.
func TestParseChargeReadsAllOrNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ch, err := ParseCharge([]byte(drawBody(t)))
		if err != nil && ch != (Charge{}) {
			t.Fatalf("error %v beside %+v", err, ch)
		}
		if _, known := chargeKinds[ch.Status]; err == nil && (ch.ID == "" || ch.Currency == "" || !known) {
			t.Fatalf("accepted %+v", ch)
		}
	})
}
