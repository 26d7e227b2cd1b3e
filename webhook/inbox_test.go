package webhook_test

import (
	"encoding/json"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"chargeonce/internal/mysql"
	"chargeonce/internal/payment"
	"chargeonce/internal/psp"
	"chargeonce/internal/telemetry"
	"chargeonce/webhook"
)

func TestEventHasItsEffectOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.claim()
	text := p.event(t, "succeeded")
	for i, want := range []string{`{"result":"applied"}`, `{"result":"repeated"}`} {
		if code, got := e.deliver("evt_1", text); code != 200 || got != want {
			t.Errorf("delivery %d: %d %s, want 200 %s", i+1, code, got, want)
		}
	}
	if diff := cmp.Diff(p.paid("succeeded"), e.payments(p.chargeID)); diff != "" {
		t.Errorf("payments (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(row{User: 42, State: "applied", Attempts: 1}, e.row("evt_1")); diff != "" {
		t.Errorf("inbox (-want +got):\n%s", diff)
	}
}

func repeatsThatArriveAtOnceHaveOneEffect(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for range 10 {
		p := e.claim()
		text := p.event(t, "succeeded")
		const n = 8
		results := make([]string, n)
		start := make(chan struct{})
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				<-start
				code, got := e.deliver("evt_"+p.chargeID, text)
				if code != 200 {
					t.Errorf("answered %d %s", code, got)
				}
				results[i] = got
			})
		}
		close(start)
		all.Wait()
		slices.Sort(results)
		want := append([]string{`{"result":"applied"}`}, slices.Repeat([]string{`{"result":"repeated"}`}, n-1)...)
		if diff := cmp.Diff(want, results); diff != "" {
			t.Fatalf("results (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(p.paid("succeeded"), e.payments(p.chargeID)); diff != "" {
			t.Errorf("payments (-want +got):\n%s", diff)
		}
	}
}

func TestKnownIDWithAnotherPayloadIsRefused(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for _, tt := range []struct {
		name  string
		other func(p purchase) []byte
	}{
		{"another amount", func(p purchase) []byte { return p.event(t, "succeeded", set("amount", 1)) }},
		{"another user", func(p purchase) []byte { return p.event(t, "succeeded", setMeta("user_id", "43")) }},
		{"an unreadable one", func(purchase) []byte { return []byte("{") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := e.claim()
			id := "evt_" + p.chargeID
			if code, got := e.deliver(id, p.event(t, "succeeded")); code != 200 {
				t.Fatalf("%d %s", code, got)
			}
			if code, got := e.deliver(id, tt.other(p)); code != 409 {
				t.Errorf("%d %s, want 409", code, got)
			}
			var n int
			if err := e.db.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM webhook_events WHERE event_id = ?`, id).Scan(&n); err != nil || n != 1 {
				t.Errorf("%d rows in the inbox (%v), want 1", n, err)
			}
			if diff := cmp.Diff(p.paid("succeeded"), e.payments(p.chargeID)); diff != "" {
				t.Errorf("payments (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatCannotBeAppliedIsKept(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for _, tt := range []struct {
		name  string
		text  func(p purchase) []byte
		want  row
		error string // a part of it
	}{
		{"another amount", func(p purchase) []byte { return p.event(t, "succeeded", set("amount", 1)) }, row{User: 42, State: "failed", Attempts: 1, Waits: true}, "differs in amount"},
		{"another currency", func(p purchase) []byte { return p.event(t, "succeeded", set("currency", "USD")) }, row{User: 42, State: "failed", Attempts: 1, Waits: true}, "differs in currency"},
		{"another order", func(p purchase) []byte { return p.event(t, "succeeded", setMeta("order_id", "o-2")) }, row{User: 42, State: "failed", Attempts: 1, Waits: true}, "differs in order_id"},
		{"another key", func(p purchase) []byte { return p.event(t, "succeeded", set("idempotency_key", "k")) }, row{User: 42, State: "failed", Attempts: 1, Waits: true}, "differs in idempotency key"},
		{"a user in no form of ours", func(p purchase) []byte { return p.event(t, "succeeded", setMeta("user_id", "bob")) }, row{State: "failed", Attempts: 1, Waits: true}, "names no user"},
		{"no metadata", func(p purchase) []byte { return p.event(t, "succeeded", set("metadata", nil)) }, row{State: "failed", Attempts: 1, Waits: true}, "names no user"},
		{"type and status at odds", func(p purchase) []byte {
			return []byte(strings.Replace(string(p.event(t, "succeeded")), "charge.succeeded", "charge.failed", 1))
		}, row{User: 42, State: "failed", Attempts: 1, Waits: true}, "shows its charge as succeeded"},
		{"no charge", func(purchase) []byte { return body(t, "charge.succeeded", map[string]any{}) }, row{State: "failed", Attempts: 1, Waits: true}, "cannot be read"},
		{"no JSON", func(purchase) []byte { return []byte(`{"type`) }, row{State: "failed", Attempts: 1, Waits: true}, "no event"},
		{"no type", func(purchase) []byte { return []byte(`{}`) }, row{State: "failed", Attempts: 1, Waits: true}, "names no type"},
		{"a charge id that no column holds", func(p purchase) []byte { return p.event(t, "succeeded", set("id", strings.Repeat("c", 256))) }, row{State: "failed", Attempts: 1, Waits: true}, "want 1 to 255"},
		{"an unknown type", func(purchase) []byte { return body(t, "dispute.opened", 7) }, row{State: "ignored", Attempts: 1}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := e.claim()
			id := "evt_" + p.chargeID
			if code, got := e.deliver(id, tt.text(p)); code != 200 {
				t.Fatalf("%d %s, want 200", code, got)
			}
			got := e.row(id)
			if !strings.Contains(got.Error, tt.error) || tt.error == "" && got.Error != "" {
				t.Errorf("last error %q, want %q in it", got.Error, tt.error)
			}
			got.Error = ""
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("inbox (-want +got):\n%s", diff)
			}
			var n int
			if err := e.db.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM payments WHERE id = ?`, p.paymentID).Scan(&n); err != nil || n != 0 {
				t.Errorf("%d payments (%v), want none", n, err)
			}
			if code, again := e.deliver(id, tt.text(p)); code != 200 || again != `{"result":"repeated"}` {
				t.Errorf("sent again: %d %s", code, again)
			}
		})
	}
}

func TestEventWhoseKeyRowIsGoneIsAppliedFromThePSPsRecord(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := newPurchase(t)
	if code, got := e.deliver("evt_1", p.event(t, "succeeded")); code != 200 || got != `{"result":"applied"}` {
		t.Errorf("%d %s", code, got)
	}
	if diff := cmp.Diff(p.paid("succeeded"), e.payments(p.chargeID)); diff != "" {
		t.Errorf("payments (-want +got):\n%s", diff)
	}
}

func TestDatabaseDownAsksThePSPToSendAgain(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	db, err := mysql.Open("u:p@tcp(127.0.0.1:1)/none", mysql.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	h, err := webhook.New(webhook.Config{DB: db, Flow: e.flow, Secrets: []telemetry.Secret{secretA}, Timeout: 200 * time.Millisecond, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, signed(t, "evt_1", time.Now(), newPurchase(t).event(t, "succeeded"), secretA))
	if w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d %s, want 503 with Retry-After", w.Code, w.Body)
	}
}

// The status ends at the highest of all that the events say, in whatever order they come and however often, one by one or
// at once.
func orderOfArrivalDoesNotMatter(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	rank := []string{"pending", "failed", "succeeded", "canceled", "refunded"}
	rapid.Check(t, func(rt *rapid.T) {
		p := e.claim()
		kinds := rapid.SliceOfNDistinct(rapid.SampledFrom(rank[1:]), 1, 4, rapid.ID).Draw(rt, "events")
		repeated := slices.Clone(kinds)
		for _, k := range kinds {
			repeated = append(repeated, slices.Repeat([]string{k}, rapid.IntRange(0, 2).Draw(rt, "repeats of "+k))...)
		}
		order := rapid.Permutation(repeated).Draw(rt, "order")
		send := func(k string) {
			if code, got := e.deliver("evt_"+p.chargeID+k, p.event(t, k)); code != 200 {
				rt.Errorf("%s: %d %s", k, code, got)
			}
		}
		if rapid.Bool().Draw(rt, "at once") {
			var all sync.WaitGroup
			for _, k := range order {
				all.Go(func() { send(k) })
			}
			all.Wait()
		} else {
			for _, k := range order {
				send(k)
			}
		}
		highest := slices.MaxFunc(kinds, func(a, b string) int { return slices.Index(rank, a) - slices.Index(rank, b) })
		if diff := cmp.Diff(p.paid(highest), e.payments(p.chargeID)); diff != "" {
			rt.Errorf("payments (-want +got):\n%s", diff)
		}
		for _, k := range kinds {
			if got := e.row("evt_" + p.chargeID + k); got.State != "applied" {
				rt.Errorf("event %s: %+v", k, got)
			}
		}
	})
}

// The webhook leads the response, follows it, or comes at about the same time: one row, and the same answer.
func finishAndWebhookInAnyOrder(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for _, tt := range []struct {
		name   string
		rounds int
		play   func(webhook, charged func(), request func())
	}{
		{"the webhook first", 5, func(webhook, charged, request func()) {
			webhook()
			charged()
			request()
		}},
		{"the request first", 5, func(webhook, charged, request func()) {
			charged()
			request()
			webhook()
		}},
		{"both at once", 50, func(webhook, charged, request func()) {
			var both sync.WaitGroup
			start := make(chan struct{})
			both.Go(func() { <-start; webhook() })
			both.Go(func() { <-start; charged() })
			close(start)
			both.Wait()
			request()
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range tt.rounds {
				p := newPurchase(t)
				atPSP, charged := make(chan string), make(chan struct{})
				e.psp.charge = func(r psp.ChargeRequest) psp.Result {
					atPSP <- r.Metadata.PaymentID
					<-charged
					return psp.Result{Kind: psp.Succeeded, Charge: &psp.Charge{
						ID: p.chargeID, IdempotencyKey: r.Key, Amount: r.Amount, Currency: r.Currency, Status: "succeeded", Metadata: r.Metadata,
					}}
				}
				type ended struct {
					answer payment.Answer
					err    error
				}
				done := make(chan ended, 1)
				go func() {
					a, err := e.create(p)
					done <- ended{a, err}
				}()
				p.paymentID = <-atPSP
				var end ended
				tt.play(
					func() {
						if code, got := e.deliver("evt_"+p.chargeID, p.event(t, "succeeded")); code != 200 || got != `{"result":"applied"}` {
							t.Errorf("webhook: %d %s", code, got)
						}
					},
					func() { close(charged) },
					func() { end = <-done },
				)
				if end.err != nil || end.answer.Stored.Code != 201 || string(end.answer.Stored.Body) != p.paid("succeeded")[0] {
					t.Errorf("the request ended with %d %s, %v", end.answer.Stored.Code, end.answer.Stored.Body, end.err)
				}
				if diff := cmp.Diff(p.paid("succeeded"), e.payments(p.chargeID)); diff != "" {
					t.Fatalf("payments (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestChargeAfterARefusalWaitsForAPersonUntilTheMoneyWentBack(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		result psp.Result
		code   int
	}{
		{"declined", psp.Result{Kind: psp.Declined, Code: "do_not_honor"}, 402},
		{"rejected", psp.Result{Kind: psp.Rejected, Code: "blocked"}, 402},
		{"abandoned", psp.Result{Kind: psp.Cancelled}, 410},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			chargeAfterRefusal(t, tt.result, tt.code)
		})
	}
}

func chargeAfterRefusal(t *testing.T, result psp.Result, code int) {
	t.Helper()
	e := newEnv(t)
	p := newPurchase(t)
	e.psp.charge = func(r psp.ChargeRequest) psp.Result {
		p.paymentID = r.Metadata.PaymentID
		return result
	}
	if a, err := e.create(p); err != nil || a.Stored.Code != code {
		t.Fatalf("%+v %v", a, err)
	}
	if code, got := e.deliver("evt_1", p.event(t, "succeeded")); code != 200 || got != `{"result":"applied"}` {
		t.Fatalf("%d %s", code, got)
	}
	backlog := func() [3]int {
		failed, dead, charged, err := e.inbox.Backlog(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return [3]int{failed, dead, charged}
	}
	e.retry()
	if got := backlog(); got != [3]int{0, 0, 1} {
		t.Errorf("backlog %v, want one charge after a refusal", got)
	}
	if a, err := e.create(p); err != nil || a.Stored.Code != code || !a.Replayed {
		t.Errorf("the stored answer became %+v %v", a, err)
	}
	list, err := e.inbox.List(t.Context(), 10)
	if err != nil || len(list) != 1 || list[0].State != webhook.Applied {
		text, jsonErr := json.Marshal(list)
		t.Errorf("list %s (%v, %v)", text, err, jsonErr)
	}
	if code, got := e.deliver("evt_2", p.event(t, "refunded")); code != 200 {
		t.Fatalf("%d %s", code, got)
	}
	e.retry()
	if got := backlog(); got != [3]int{} {
		t.Errorf("backlog %v after the refund, want none", got)
	}
}
