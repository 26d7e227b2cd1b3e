package server_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	paymentsv1 "chargeonce/api/payments/v1"
	"chargeonce/internal/idempotency"
	"chargeonce/internal/server"
)

// admin sends a request to the admin port and returns the body of its 200.
func (e *env) admin(method, path string) string {
	e.t.Helper()
	status, body := e.adminStatus(method, path, nil)
	if status != http.StatusOK {
		e.t.Fatalf("%s %s: %d %s", method, path, status, body)
	}
	return body
}

func (e *env) adminStatus(method, path string, header http.Header) (int, string) {
	e.t.Helper()
	on := *e
	on.addrs.REST = e.addrs.Admin
	resp, body := on.do(method, path, header, nil)
	return resp.StatusCode, body
}

// refusedReadOnly checks for the answer of a server that takes no new purchases, and will not for some time.
func (o outcome) refusedReadOnly(t *testing.T, f face) {
	t.Helper()
	code, status := codes.Unavailable, 0
	if f == overREST {
		code, status = codes.OK, http.StatusServiceUnavailable
	}
	const detail = "The service takes no new purchases at present. This request charged nothing; an earlier one under the same key may have."
	if o.Detail != detail || o.Reason != "UNAVAILABLE" || o.NextAction != retrySameKey || o.Code != code || o.HTTP != status || o.RetryAfter < 5*time.Second {
		t.Errorf("%s: %+v", f, o)
	}
}

// What would write is refused before it has claimed anything; what only reads is served, replays among it.
func TestReadOnlyModeServesReadsAndReplaysAndClaimsNothing(t *testing.T) {
	t.Parallel()
	events := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	e := newEnv(t, options{server: server.Config{Webhook: events}})
	event := func() *http.Response {
		resp, _ := e.do(http.MethodPost, "/webhooks/psp", nil, nil)
		return resp
	}
	done, req := unique("done"), purchase(unique("paid"))
	first := e.send(overREST, sending{keys: []string{done}, message: req})
	declined := unique("declined")
	refused := e.send(overREST, sending{keys: []string{declined}, message: withToken("tok_declined")})
	held, released, parked := unique("held"), unique("released"), unique("parked")
	for _, key := range []string{held, released, parked} {
		e.hold(key, purchase("o"))
	}
	e.exec(`UPDATE idempotency_keys SET locked_until = NOW(3) WHERE idem_key = ?`, []byte(released))
	e.exec(`UPDATE idempotency_keys SET status = 'parked' WHERE idem_key = ?`, []byte(parked))

	if got := e.admin(http.MethodPut, "/admin/read-only"); got != "{\"read_only\":true}\n" {
		t.Errorf("PUT answers %s", got)
	}
	for _, f := range faces {
		order := unique("new")
		_, key, got := e.create(f, "", purchase(order))
		got.refusedReadOnly(t, f)
		if row, n := e.keyRow(key), e.charges(order); row != "none" || n != 0 {
			t.Errorf("%s: the key's row: %s, and %d charges", f, row, n)
		}

		if got := e.send(f, sending{keys: []string{done}, message: req}); !got.Replayed || got.Payment.GetId() != first.Payment.GetId() {
			t.Errorf("%s: replay: %+v", f, got)
		}
		if got := e.send(f, sending{keys: []string{declined}, message: withToken("tok_declined")}); !got.Replayed || got.Reason != "CARD_DECLINED" || f == overREST && got.Body != refused.Body {
			t.Errorf("%s: replay of a refusal: %+v", f, got)
		}
		for key, want := range map[string]string{
			done: "IDEMPOTENCY_KEY_REUSED", held: "IDEMPOTENCY_KEY_IN_PROGRESS", released: "UNAVAILABLE", parked: "PAYMENT_UNDER_REVIEW",
		} {
			message := purchase("o")
			if key == done {
				message = purchase(unique("another"))
			}
			if got := e.send(f, sending{keys: []string{key}, message: message}); got.Reason != want {
				t.Errorf("%s: %s: %+v", f, want, got)
			}
		}
		if got := e.send(f, sending{message: &paymentsv1.GetPaymentRequest{Id: first.Payment.GetId()}}); got.Payment == nil {
			t.Errorf("%s: a read: %+v", f, got)
		}
		if got := e.send(f, sending{message: &paymentsv1.ListPaymentsRequest{}}); got.Reason != "" {
			t.Errorf("%s: a list: %+v", f, got)
		}
	}
	if resp := event(); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("an event: %s", resp.Status)
	}
	var lease int64
	if err := e.db.QueryRowContext(t.Context(), `SELECT lease FROM idempotency_keys WHERE idem_key = ?`, []byte(released)).Scan(&lease); err != nil || lease != 1 {
		t.Errorf("the released key was taken over: lease %d, %v", lease, err)
	}
	e.until("ready, for it serves", func() bool { return e.health() == healthpb.HealthCheckResponse_SERVING })

	if got := e.admin(http.MethodDelete, "/admin/read-only"); got != "{\"read_only\":false}\n" {
		t.Errorf("DELETE answers %s", got)
	}
	if got := e.send(overREST, sending{keys: []string{released}, message: purchase("o")}); got.HTTP != http.StatusCreated {
		t.Errorf("a purchase afterwards: %+v", got)
	}
	if resp := event(); resp.StatusCode != http.StatusNoContent {
		t.Errorf("an event afterwards: %s", resp.Status)
	}
}

func (e *env) exec(statement string, args ...any) {
	e.t.Helper()
	if _, err := e.db.ExecContext(e.t.Context(), statement, args...); err != nil {
		e.t.Fatal(err)
	}
}

// A key that charged and was compacted is replayed from its payment, which is a read too.
func TestReadOnlyModeReplaysACompactedKey(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	key, req := unique("old"), purchase(unique("o"))
	first := e.send(overREST, sending{keys: []string{key}, message: req})
	row, err := idempotency.NewStore(e.db.DB).Read(t.Context(), e.user, e.parseKey(key))
	if err != nil {
		t.Fatal(err)
	}
	if err := idempotency.NewStore(e.db.DB).DropBody(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	e.admin(http.MethodPut, "/admin/read-only")
	if got := e.send(overREST, sending{keys: []string{key}, message: req}); got.Body != first.Body || !got.Replayed {
		t.Errorf("replayed:\n%s\nat first:\n%s", got.Body, first.Body)
	}
}

func TestAServerMayStartInReadOnlyMode(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{server: server.Config{ReadOnly: true}})
	if got := e.admin(http.MethodGet, "/admin/read-only"); got != "{\"read_only\":true}\n" {
		t.Errorf("GET answers %s", got)
	}
	_, key, got := e.create(overGRPC, "", purchase("o"))
	got.refusedReadOnly(t, overGRPC)
	e.untouched(key)

	header := e.header(unique("waiting"))
	header.Set("Prefer", "wait=5")
	got = e.rest(http.MethodPost, "/payments", header, `{"order_id":"o","amount":1,"currency":"EUR","payment_method":"tok_visa"}`)
	if applied := got.Header.Values("Preference-Applied"); len(applied) > 0 || got.HTTP != http.StatusServiceUnavailable {
		t.Errorf("it says that it waits (%v), and does not: %d", applied, got.HTTP)
	}
}

// A web page that somebody on call has open reaches what listens on 127.0.0.1 as well.
func TestAPageInABrowserSwitchesNothing(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	for _, header := range []http.Header{{"Sec-Fetch-Site": {"cross-site"}}, {"Origin": {"https://elsewhere.example"}}} {
		if status, body := e.adminStatus(http.MethodPut, "/admin/read-only", header); status != http.StatusForbidden {
			t.Errorf("%v: %d %s", header, status, body)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+e.addrs.Admin+"/admin/read-only", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "rebound.example:9091" // a name of the page's own that was made to lead here
	resp, err := httpClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("under a public name: %s, %v", resp.Status, err)
	}
	if got := e.admin(http.MethodGet, "/admin/read-only"); strings.Contains(got, "true") {
		t.Errorf("it was switched: %s", got)
	}
	if resp, _ = e.do(http.MethodPut, "/admin/read-only", nil, io.NopCloser(strings.NewReader(""))); resp.StatusCode != http.StatusNotFound {
		t.Errorf("on the REST port: %s", resp.Status)
	}
}
