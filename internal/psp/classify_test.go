package psp

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// judged is what classify decides, without what it carries along.
type judged struct {
	Kind     Kind
	Answered bool
	AskByKey bool
	Effect   effect
	Retry    bool
	Code     string
}

func final(k Kind, code string) judged {
	return judged{Kind: k, Answered: true, Effect: success, Code: code}
}

type classifyCase struct {
	name   string
	op     operation
	status int
	body   string
	want   judged
}

// classifyCases holds every row of the table, and what stands close to a row without being one.
func classifyCases() []classifyCase {
	const other = "key-2"
	inner := func(kind, code, key string) string {
		return `, "error": {"type": "` + kind + `", "code": "` + code + `", "idempotency_key": "` + key + `"}`
	}
	notFinal, mismatch := judged{}, judged{Kind: Mismatch, Answered: true, Effect: success}
	cases := []classifyCase{
		{"charged now", opCharge, 201, chargeJSON(testKey, "succeeded"), final(Succeeded, "")},
		{"accepted", opCharge, 201, chargeJSON(testKey, "pending"), final(Pending, "")},
		{"charged before", opCharge, 200, chargeJSON(testKey, "succeeded"), final(Succeeded, "")},
		{"accepted before", opCharge, 200, chargeJSON(testKey, "pending"), final(Pending, "")},
		{"failed since", opCharge, 200, chargeJSON(testKey, "failed", "failure_code", `"expired"`), final(Failed, "expired")},
		{"voided since", opCharge, 200, chargeJSON(testKey, "canceled"), final(Voided, "")},
		{"refunded since", opCharge, 200, chargeJSON(testKey, "refunded"), final(Refunded, "")},
		{"declined", opCharge, 402, errorJSON("card_declined", "do_not_honor", testKey), final(Declined, "do_not_honor")},
		{"rejected", opCharge, 422, errorJSON("charge_rejected", "blocked", testKey), final(Rejected, "blocked")},
		{"cancelled", opCharge, 410, errorJSON("key_canceled", "", testKey), final(Cancelled, "")},
		{"in progress", opCharge, 409, errorJSON("key_in_progress", "", testKey), judged{Kind: StillWorking, Answered: true}},
		{"other parameters", opCharge, 422, errorJSON("idempotency_mismatch", "", testKey),
			judged{Answered: true, AskByKey: true, Effect: success}},

		{"charged now, yet failed", opCharge, 201, chargeJSON(testKey, "failed"), notFinal},
		{"unknown status", opCharge, 200, chargeJSON(testKey, "disputed"), notFinal},
		{"no id", opCharge, 201, chargeJSON(testKey, "succeeded", "id", `""`), notFinal},
		{"amount as text", opCharge, 201, chargeJSON(testKey, "succeeded", "amount", `"1999"`), notFinal},
		{"amount with a fraction", opCharge, 201, chargeJSON(testKey, "succeeded", "amount", "1999.0"), notFinal},
		{"no amount", opCharge, 201, chargeJSON(testKey, "succeeded", "amount", "null"), notFinal},
		{"amount twice", opCharge, 201, chargeJSON(testKey, "succeeded", "amount", `1, "amount": 1999`), notFinal},
		{"cut", opCharge, 201, chargeJSON(testKey, "succeeded")[:80], notFinal},
		{"two objects", opCharge, 201, strings.Repeat(chargeJSON(testKey, "succeeded"), 2), notFinal},
		{"empty", opCharge, 201, "", notFinal},
		{"a page of a proxy's", opCharge, 200, "<html>welcome</html>", notFinal},
		{"too large", opCharge, 201, chargeJSON(testKey, "succeeded", "description", `"`+strings.Repeat("x", maxBody)+`"`), notFinal},
		{"accepted without a word", opCharge, 202, chargeJSON(testKey, "succeeded"), notFinal},
		{"moved", opCharge, 302, "", notFinal},
		{"another member in capitals", opCharge, 201, chargeJSON(testKey, "succeeded", "description", `"", "Amount": 5`),
			final(Succeeded, "")},

		{"other amount", opCharge, 201, chargeJSON(testKey, "succeeded", "amount", "1998"), mismatch},
		{"other currency", opCharge, 201, chargeJSON(testKey, "succeeded", "currency", `"USD"`), mismatch},
		{"other key", opCharge, 200, chargeJSON(other, "succeeded"), mismatch},
		{"other user", opCharge, 200, chargeJSON(testKey, "succeeded", "metadata", `{"user_id": "43"}`), mismatch},
		{"a user not of ours", opCharge, 200, chargeJSON(testKey, "succeeded", "metadata", `{"user_id": "042"}`), mismatch},
		{"other order", opCharge, 200, chargeJSON(testKey, "succeeded", "metadata", `{"order_id": "o-2"}`), mismatch},
		{"other payment id", opCharge, 200, chargeJSON(testKey, "succeeded", "metadata", `{"user_id": "42", "payment_id": "pay_2"}`),
			final(Succeeded, "")},
		{"metadata not echoed", opCharge, 200, chargeJSON(testKey, "succeeded", "metadata", "null"), final(Succeeded, "")},

		{"decline of another key", opCharge, 402, errorJSON("card_declined", "do_not_honor", other), notFinal},
		{"decline of no key", opCharge, 402, `{"error": {"type": "card_declined", "code": "do_not_honor"}}`, notFinal},
		{"402 of a proxy", opCharge, 402, "pay me", notFinal},
		{"decline with another status", opCharge, 400, errorJSON("card_declined", "do_not_honor", testKey), notFinal},
		{"rejection of another key", opCharge, 422, errorJSON("charge_rejected", "blocked", other), notFinal},
		{"cancelled another key", opCharge, 410, errorJSON("key_canceled", "", other), notFinal},
		{"410 of a proxy", opCharge, 410, "gone", notFinal},
		{"409 of a proxy", opCharge, 409, "conflict", notFinal},
		{"in progress under another key", opCharge, 409, errorJSON("key_in_progress", "", other), notFinal},
		{"invalid request", opCharge, 400, errorJSON("invalid_request", "", testKey), notFinal},
		{"bad credential", opCharge, 401, errorJSON("unauthorized", "", ""), notFinal},
		{"forbidden", opCharge, 403, "", notFinal},
		{"not found", opCharge, 404, errorJSON("key_not_found", "", testKey), notFinal},
		{"body too large for a proxy", opCharge, 413, "", notFinal},

		{"request time-out", opCharge, 408, "", judged{Retry: true}},
		{"too many requests", opCharge, 429, "", judged{Retry: true}},
		{"fault", opCharge, 500, errorJSON("internal", "", testKey), judged{Effect: failure}},
		{"fault that says declined", opCharge, 500, errorJSON("card_declined", "do_not_honor", testKey), judged{Effect: failure}},
		{"not implemented", opCharge, 501, "", judged{Effect: failure}},
		{"bad gateway", opCharge, 502, "", judged{Effect: failure, Retry: true}},
		{"unavailable", opCharge, 503, strings.Repeat("x", maxBody+1), judged{Effect: failure, Retry: true}},
		{"gateway time-out", opCharge, 504, "", judged{Effect: failure, Retry: true}},
		{"a status of nobody's", opCharge, 599, "", judged{Effect: failure}},

		{"never seen", opLookUp, 404, errorJSON("key_not_found", "", testKey), final(NeverSeen, "")},
		{"never seen another key", opLookUp, 404, errorJSON("key_not_found", "", other), notFinal},
		{"404 of a proxy", opLookUp, 404, "not here", notFinal},
		{"never seen, of a cancel", opCancel, 404, errorJSON("key_not_found", "", testKey), notFinal},

		{"charge by id", opGet, 200, chargeJSON(other, "succeeded", "amount", "7"), final(Succeeded, "")},
		{"pending by id", opGet, 200, chargeJSON(other, "pending"), final(Pending, "")},
		{"failed by id", opGet, 200, chargeJSON(other, "failed", "failure_code", `"expired"`), final(Failed, "expired")},
		{"voided by id", opGet, 200, chargeJSON(other, "canceled"), final(Voided, "")},
		{"refunded by id", opGet, 200, chargeJSON(other, "refunded"), final(Refunded, "")},
		{"no such charge", opGet, 404, errorJSON("charge_not_found", "", ""), final(NeverSeen, "")},
		{"another charge than asked", opGet, 200, chargeJSON(testKey, "succeeded", "id", `"ch_2"`), mismatch},
		{"404 by id of a proxy", opGet, 404, "not here", notFinal},

		{"page", opStatement, 200, `{"data": [` + chargeJSON(other, "succeeded") + `], "next_cursor": "c"}`, final(Unknown, "")},
		{"empty page", opStatement, 200, `{"data": [], "next_cursor": ""}`, final(Unknown, "")},
		{"page without data", opStatement, 200, `{"next_cursor": ""}`, notFinal},
		{"page with a hole", opStatement, 200, `{"data": [{}], "next_cursor": ""}`, notFinal},
	}
	for _, op := range []operation{opLookUp, opCancel} {
		byKey := func(name string, body string, want judged) {
			cases = append(cases, classifyCase{fmt.Sprintf("%s: %s", op, name), op, 200, body, want})
		}
		charged := func(ch string) string { return byKeyJSON(testKey, "charged", `, "charge": `+ch) }
		byKey("charged", charged(chargeJSON(testKey, "succeeded")), final(Succeeded, ""))
		byKey("pending", charged(chargeJSON(testKey, "pending")), final(Pending, ""))
		byKey("failed", charged(chargeJSON(testKey, "failed", "failure_code", `"expired"`)), final(Failed, "expired"))
		byKey("voided", charged(chargeJSON(testKey, "canceled")), final(Voided, ""))
		byKey("refunded", charged(chargeJSON(testKey, "refunded")), final(Refunded, ""))
		byKey("declined", byKeyJSON(testKey, "declined", inner("card_declined", "do_not_honor", testKey)), final(Declined, "do_not_honor"))
		byKey("rejected", byKeyJSON(testKey, "rejected", inner("charge_rejected", "blocked", testKey)), final(Rejected, "blocked"))
		byKey("cancelled", byKeyJSON(testKey, "canceled", ""), final(Cancelled, ""))
		byKey("processing", byKeyJSON(testKey, "processing", ""), final(StillWorking, ""))

		byKey("other amount", charged(chargeJSON(testKey, "succeeded", "amount", "1")), mismatch)
		byKey("charge of another key", charged(chargeJSON(other, "succeeded")), mismatch)
		byKey("answer on another key", byKeyJSON(other, "charged", `, "charge": `+chargeJSON(testKey, "succeeded")), notFinal)
		byKey("answer on no key", `{"result": "canceled"}`, notFinal)
		byKey("cancelled another key", byKeyJSON(other, "canceled", ""), notFinal)
		byKey("charged without a charge", byKeyJSON(testKey, "charged", ""), notFinal)
		byKey("bare charge", chargeJSON(testKey, "succeeded"), notFinal)
		byKey("declined without an error", byKeyJSON(testKey, "declined", ""), notFinal)
		byKey("declined by a rejection", byKeyJSON(testKey, "declined", inner("charge_rejected", "blocked", testKey)), notFinal)
		byKey("decline of another key", byKeyJSON(testKey, "declined", inner("card_declined", "do_not_honor", other)), notFinal)
		byKey("a new result", byKeyJSON(testKey, "frozen", ""), notFinal)
	}
	return cases
}

// TestEveryAnswerIsJudgedByTheTable sends each answer over a real connection. Every row of the table must be among them.
func TestEveryAnswerIsJudgedByTheTable(t *testing.T) {
	t.Parallel()
	cases := classifyCases()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var i int
		if _, err := fmt.Sscanf(r.URL.Path, "/%d", &i); err != nil {
			t.Error(err)
			return
		}
		w.WriteHeader(cases[i].status)
		if _, err := w.Write([]byte(cases[i].body)); err != nil {
			t.Logf("the client closed early: %v", err)
		}
	}))
	t.Cleanup(server.Close)
	c := serverClient(t, server.URL, Config{})

	covered := map[response]bool{}
	for i, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			q := call{op: tc.op, method: http.MethodGet, path: fmt.Sprint(i), key: testKey, want: testRequest.Expect()}
			if tc.op == opGet || tc.op == opStatement {
				q.key, q.chargeID = "", "ch_1"
			}
			a := c.exchange(t.Context(), q)
			v := classify(q, a)
			got := judged{v.kind, v.answered, v.askByKey, v.effect, v.retry, v.code}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("want (-), got (+):\n%s\nerror: %v", diff, v.err)
			}
			if v.kind.HasCharge() != (v.charge != nil) && v.kind != Mismatch {
				t.Errorf("kind %v with charge %v", v.kind, v.charge)
			}
			if doc, err := readDocument(q.op, a.status, a.body); err == nil {
				covered[response{q.op, a.status, doc.says}] = true
			}
		})
	}
	for row := range documented {
		if !covered[row] {
			t.Errorf("no case for the row %v", row)
		}
	}
}

// The status is a label, so it may be one of few words, whatever answers.
func TestAStatusThatIsNotRegisteredIsOneWord(t *testing.T) {
	t.Parallel()
	words := map[string]bool{}
	for status := 100; status < 1000; status++ {
		words[undocumented(answer{status: status}, nil).reason] = true
	}
	if len(words) > 70 || !words["unregistered_status"] || !words["503"] || words["599"] {
		t.Errorf("%d words: %v", len(words), words)
	}
}
