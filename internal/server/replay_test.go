package server_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	paymentsv1 "chargeonce/api/payments/v1"
	gatewaysim "chargeonce/gateway-sim"
)

// learned is what must be the same in every answer for one key: over one face, over the other, from another server.
func (o outcome) learned() outcome {
	return outcome{Reason: o.Reason, NextAction: o.NextAction, Detail: o.Detail, Extra: o.Extra, Location: o.Location, Payment: o.Payment}
}

// finals are requests whose answer is final, and the status that it has over REST.
var finals = []struct {
	name    string
	request *paymentsv1.CreatePaymentRequest
	http    int
	charges int
}{
	{"charged", purchase("o-charged"), 201, 1},
	{"pending", named("o-pending", "tok_pending"), 202, 1},
	{"case 15 declined", named("o-declined", "tok_declined"), 402, 0},
	{"rejected", named("o-rejected", "tok_rejected"), 402, 0},
}

func named(order, token string) *paymentsv1.CreatePaymentRequest {
	p := purchase(order)
	p.PaymentMethod = token
	return p
}

func TestAKeyIsReplayedOverTheOtherFaceAndByAnotherServer(t *testing.T) {
	t.Parallel()
	first := newEnv(t, options{})
	second := newEnv(t, options{db: first.db, sim: first.sim})
	for _, tt := range finals {
		for _, begin := range faces {
			t.Run("cases 13 and 14: "+tt.name+", first over "+string(begin), func(t *testing.T) {
				t.Parallel()
				one, two := first.in(t), second.in(t)
				key := unique("replay")
				req := purchase(unique("o"))
				req.PaymentMethod = tt.request.GetPaymentMethod()
				want := one.send(begin, sending{keys: []string{key}, message: req})
				if want.Replayed {
					t.Error("the first answer says that it is a replay")
				}
				if tt.http < 400 && (want.Payment == nil || want.Location != "/payments/"+want.Payment.GetId()) {
					t.Errorf("payment %v at %q", want.Payment, want.Location)
				}
				var body string
				for _, e := range []*env{one, two} {
					for _, f := range faces {
						got := e.send(f, sending{keys: []string{key}, message: req})
						if !got.Replayed {
							t.Errorf("%s: not marked as a replay", f)
						}
						if diff := cmp.Diff(want.learned(), got.learned(), protocmp.Transform()); diff != "" {
							t.Errorf("%s (-first +replay):\n%s", f, diff)
						}
						if f != overREST {
							continue
						}
						if begin == overREST {
							body = want.Body
						}
						if body == "" {
							body = got.Body
						}
						if got.HTTP != tt.http || got.Body != body {
							t.Errorf("replayed as %d %s, want %d %s", got.HTTP, got.Body, tt.http, body)
						}
					}
				}
				if n := one.charges(req.GetOrderId()); n != tt.charges {
					t.Errorf("%d charges, want %d", n, tt.charges)
				}
			})
		}
	}
}

// The stored bytes are what is replayed, not what this build would make of them: they may be another build's.
func TestAReplayIsTheStoredBytes(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	for _, token := range []string{"tok_visa", "tok_declined"} {
		key, req := unique("bytes"), named(unique("o"), token)
		first := e.send(overREST, sending{keys: []string{key}, message: req})
		want := strings.TrimSuffix(first.Body, "}") + `,  "newer": [1]}`
		if _, err := e.db.ExecContext(t.Context(), `UPDATE idempotency_keys SET response_body = ? WHERE idem_key = ?`, []byte(want), []byte(key)); err != nil {
			t.Fatal(err)
		}
		if resp, got := e.do(http.MethodPost, "/payments", e.header(key), strings.NewReader(toJSON(t, req))); resp.StatusCode != first.HTTP || got != want {
			t.Errorf("%s: replayed as %d %s, want %d %s", token, resp.StatusCode, got, first.HTTP, want)
		}
		over := e.send(overGRPC, sending{keys: []string{key}, message: req})
		if diff := cmp.Diff(first.learned(), over.learned(), protocmp.Transform()); diff != "" {
			t.Errorf("%s: over gRPC (-first +replay):\n%s", token, diff)
		}
	}
}

// The row is what is replayed, so neither a restart nor a later event changes an answer.
func TestAReplayIsWhatWasSentThoughThePaymentHasChangedSince(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	key := unique("changed")
	req := named(unique("o"), "tok_pending")
	want := e.send(overREST, sending{keys: []string{key}, message: req})
	if _, err := e.db.ExecContext(t.Context(), `UPDATE payments SET status = 'succeeded'`); err != nil {
		t.Fatal(err)
	}
	got := e.send(overREST, sending{keys: []string{key}, message: req})
	if got.HTTP != 202 || got.Body != want.Body {
		t.Errorf("replayed as %d %s, want 202 %s", got.HTTP, got.Body, want.Body)
	}
	now := e.send(overREST, sending{message: &paymentsv1.GetPaymentRequest{Id: want.Payment.GetId()}})
	if now.HTTP != 200 || now.Payment.GetStatus() != paymentsv1.Payment_SUCCEEDED {
		t.Errorf("read as %d %s, want it as it is now", now.HTTP, now.Body)
	}
}

func TestTheFirstAndOnlyCharge(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	other := newEnv(t, options{db: e.db, sim: e.sim, user: 43})

	t.Run("case 01: 64 at once with one key", func(t *testing.T) {
		t.Parallel()
		e := e.in(t)
		key, req := unique("many"), purchase(unique("o"))
		var wg sync.WaitGroup
		all := make([]outcome, 64)
		for i := range all {
			wg.Go(func() { all[i] = e.send(faces[i%2], sending{keys: []string{key}, message: req}) })
		}
		wg.Wait()
		fresh := 0
		for _, o := range all {
			switch {
			case o.Payment != nil && !o.Replayed:
				fresh++
			case o.Payment != nil, o.Reason == "IDEMPOTENCY_KEY_IN_PROGRESS":
			default:
				t.Errorf("unexpected: %+v", o)
			}
		}
		if n := e.charges(req.GetOrderId()); n != 1 || fresh != 1 {
			t.Errorf("%d charges and %d fresh answers, want 1 and 1", n, fresh)
		}
		if n := e.count(`SELECT COUNT(*) FROM payments WHERE order_id = ?`, req.GetOrderId()); n != 1 {
			t.Errorf("%d payment rows, want 1", n)
		}
	})

	t.Run("case 02: another request under the key has no effect", func(t *testing.T) {
		t.Parallel()
		e := e.in(t)
		key, req := unique("reused"), purchase(unique("o"))
		want := e.send(overREST, sending{keys: []string{key}, message: req})
		for name, change := range map[string]func(*paymentsv1.CreatePaymentRequest){
			"order":       func(r *paymentsv1.CreatePaymentRequest) { r.OrderId += "x" },
			"amount":      func(r *paymentsv1.CreatePaymentRequest) { r.Amount++ },
			"currency":    func(r *paymentsv1.CreatePaymentRequest) { r.Currency = "USD" },
			"method":      func(r *paymentsv1.CreatePaymentRequest) { r.PaymentMethod = "tok_declined" },
			"description": func(r *paymentsv1.CreatePaymentRequest) { r.Description = "" },
		} {
			changed := purchase(req.GetOrderId())
			change(changed)
			for _, f := range faces {
				if got := e.send(f, sending{keys: []string{key}, message: changed}); got.Reason != "IDEMPOTENCY_KEY_REUSED" || got.NextAction != newKey {
					t.Errorf("%s, %s: %+v", f, name, got)
				}
			}
		}
		if n := e.charges(req.GetOrderId()) + e.charges(req.GetOrderId()+"x"); n != 1 {
			t.Errorf("%d charges, want 1", n)
		}
		if got := e.send(overREST, sending{keys: []string{key}, message: req}); got.Body != want.Body || !got.Replayed {
			t.Errorf("the first request is answered %s, want %s", got.Body, want.Body)
		}
	})

	t.Run("case 03: two users' same key and request are two purchases", func(t *testing.T) {
		t.Parallel()
		key, req := unique("shared"), purchase(unique("o"))
		mine := e.in(t).send(overREST, sending{keys: []string{key}, message: req})
		theirs := other.in(t).send(overREST, sending{keys: []string{key}, message: req})
		if mine.HTTP != 201 || theirs.HTTP != 201 || theirs.Replayed || mine.Payment.GetId() == theirs.Payment.GetId() {
			t.Errorf("mine %s, theirs %s", mine.Body, theirs.Body)
		}
		if n := e.in(t).charges(req.GetOrderId()); n != 2 {
			t.Errorf("%d charges, want 2", n)
		}
		for _, f := range faces {
			got := other.in(t).send(f, sending{message: &paymentsv1.GetPaymentRequest{Id: mine.Payment.GetId()}})
			if got.Reason != "PAYMENT_NOT_FOUND" {
				t.Errorf("%s: another user's payment: %+v", f, got)
			}
		}
	})

	t.Run("case 04: a key on another method replays nothing", func(t *testing.T) {
		t.Parallel()
		e := e.in(t)
		key, req := unique("elsewhere"), purchase(unique("o"))
		paid := e.send(overREST, sending{keys: []string{key}, message: req})
		got := e.send(overREST, sending{keys: []string{key}, message: &paymentsv1.ListPaymentsRequest{OrderId: req.GetOrderId()}})
		if got.HTTP != 200 || got.Replayed || got.Body == paid.Body {
			t.Errorf("list under the key: %d, replayed %t, %s", got.HTTP, got.Replayed, got.Body)
		}
	})

	t.Run("case 25: what one call sent does not leak into the next", func(t *testing.T) {
		t.Parallel()
		e := e.in(t)
		one := e.send(overREST, sending{keys: []string{unique("leak")}, message: purchase(unique("o"))})
		two := e.send(overREST, sending{message: purchase(unique("o"))})
		three := e.send(overREST, sending{keys: []string{unique("leak")}, message: purchase(unique("o"))})
		if one.HTTP != 201 || two.Reason != "IDEMPOTENCY_KEY_MISSING" || three.HTTP != 201 || three.Replayed {
			t.Errorf("%+v\n%+v\n%+v", one, two, three)
		}
	})
}

func TestRetriesWithTheSameKey(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	charge := func(order string) gatewaysim.Match {
		return gatewaysim.Match{Method: http.MethodPost, Path: "/charges", Exact: true, OrderID: order}
	}
	if err := e.sim.SetFaults(gatewaysim.Faults{Rules: []gatewaysim.Rule{
		{Fault: gatewaysim.ErrorAnswer, Status: 500, Count: 1, Match: charge("passing-fault")},
		{Fault: gatewaysim.LoseAnswer, How: gatewaysim.LostByError, Status: 500, Count: 1, Match: charge("answer-lost")},
	}}); err != nil {
		t.Fatal(err)
	}

	t.Run("case 12: a passing fault is not stored", func(t *testing.T) {
		t.Parallel()
		e, key, first := e.in(t).create(overREST, "", purchase("passing-fault"))
		_, _, again := e.create(overGRPC, key, purchase("passing-fault"))
		if first.HTTP != 503 || first.NextAction != retrySameKey || again.Payment == nil || again.Replayed {
			t.Errorf("first %+v\nagain %+v", first, again)
		}
	})

	t.Run("cases 09 and 20: a lost answer is unknown, and whoever takes the key over finds the charge", func(t *testing.T) {
		t.Parallel()
		e, key, first := e.in(t).create(overREST, "", purchase("answer-lost"))
		_, _, again := e.create(overREST, key, purchase("answer-lost"))
		if first.Reason != "PSP_OUTCOME_UNKNOWN" || again.HTTP != 201 {
			t.Errorf("first %+v\nagain %+v", first, again)
		}
		if n := e.charges("answer-lost"); n != 1 {
			t.Errorf("%d charges, want 1", n)
		}
	})

	t.Run("cases 08 and 11: a key in progress says when to come back, and is taken over when its lease is over", func(t *testing.T) {
		t.Parallel()
		e := e.in(t)
		key, req := unique("lease"), purchase("busy")
		e.hold(key, req)
		for _, f := range faces {
			got := e.send(f, sending{keys: []string{key}, message: req})
			if got.Reason != "IDEMPOTENCY_KEY_IN_PROGRESS" || got.RetryAfter <= 0 || got.RetryAfter > time.Second {
				t.Errorf("%s: %+v", f, got)
			}
		}
		if _, err := e.db.ExecContext(t.Context(), `UPDATE idempotency_keys SET locked_until = NOW(3) WHERE idem_key = ?`, []byte(key)); err != nil {
			t.Fatal(err)
		}
		if got := e.send(overREST, sending{keys: []string{key}, message: req}); got.HTTP != 201 {
			t.Errorf("after the lease: %+v", got)
		}
	})

	t.Run("case 11: what is left of a short lease is the most that one is told to wait", func(t *testing.T) {
		t.Parallel()
		e := e.in(t)
		key, req := unique("short"), purchase("busy")
		e.hold(key, req)
		if _, err := e.db.ExecContext(t.Context(), `UPDATE idempotency_keys SET locked_until = NOW(3) + INTERVAL 400000 MICROSECOND WHERE idem_key = ?`, []byte(key)); err != nil {
			t.Fatal(err)
		}
		got := e.send(overREST, sending{keys: []string{key}, message: req})
		if got.Reason != "IDEMPOTENCY_KEY_IN_PROGRESS" || got.RetryAfter > 400*time.Millisecond || got.Header.Get("Retry-After") != "1" {
			t.Errorf("%+v", got)
		}
	})
}

// case 22: headers go in and come out under their own names, and nothing else does. (Every REST response is held to it, see rest.)
func TestCase22HeadersKeepTheirNames(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	got := e.send(overREST, sending{keys: []string{unique("names")}, message: purchase(unique("o"))})
	var names []string
	for name := range got.Header {
		names = append(names, name)
	}
	want := "Cache-Control Content-Length Content-Security-Policy Content-Type Date Location Referrer-Policy X-Content-Type-Options X-Trace-Id"
	for _, name := range names {
		if !strings.Contains(want, name) {
			t.Errorf("header %s: %q", name, got.Header[name])
		}
	}
	if got.Header.Get("Content-Type") != "application/json" || got.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("headers %v", got.Header)
	}
}

// case 24: nothing that was sent as a payment method is kept anywhere.
func TestCase24NoCardDataIsKept(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	req := named(unique("o"), "tok_insufficient_funds")
	req.Description = "a description that is not kept"
	for _, f := range faces {
		e.send(f, sending{keys: []string{unique("card")}, message: req})
		e.send(f, sending{keys: []string{unique("card")}, message: purchase(unique("o"))})
	}
	rows, err := e.db.QueryContext(t.Context(), `
		SELECT CONCAT_WS('|', idem_key, HEX(request_hash), order_id, response_body, parked_for) FROM idempotency_keys
		UNION ALL SELECT CONCAT_WS('|', id, order_id, charge_id) FROM payments`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := rows.Close(); err != nil {
			t.Error(err)
		}
	}()
	n := 0
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		n++
		if strings.Contains(text, "tok_") || strings.Contains(text, req.GetDescription()) {
			t.Errorf("kept: %s", text)
		}
	}
	if err := rows.Err(); err != nil || n != 6 {
		t.Errorf("%d rows, %v", n, err)
	}
}
