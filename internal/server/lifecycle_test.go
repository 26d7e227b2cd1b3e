package server_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"

	paymentsv1 "chargeonce/api/payments/v1"
	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/internal/payment"
	"chargeonce/internal/psp"
	"chargeonce/internal/server"
)

// slowPSP works on every charge for d.
func (e *env) slowPSP(d time.Duration) {
	e.t.Helper()
	var fixed gatewaysim.Latency
	if err := fixed.UnmarshalText([]byte("fixed " + d.String())); err != nil {
		e.t.Fatal(err)
	}
	if err := e.sim.SetFaults(gatewaysim.Faults{Latency: fixed}); err != nil {
		e.t.Fatal(err)
	}
}

func (e *env) hangingPSP() {
	e.t.Helper()
	if err := e.sim.SetFaults(gatewaysim.Faults{Rules: []gatewaysim.Rule{{Fault: gatewaysim.Hang}}}); err != nil {
		e.t.Fatal(err)
	}
}

func TestDefaultAndMaximumDeadlineHoldOverBothFaces(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{
		server: server.Config{DefaultDeadline: 1500 * time.Millisecond, MaxDeadline: 2500 * time.Millisecond},
		timing: payment.Timing{Reserve: time.Second}, // the answer is on its way before a gRPC client's own timer, on a busy machine too
		psp:    psp.Config{BreakerOff: true},         // six callers whose time runs out would open it for the last of them
	})
	e.hangingPSP()
	for _, tt := range []struct {
		name    string
		timeout time.Duration
		least   time.Duration
	}{
		{"no wish", 0, 450 * time.Millisecond},
		{"a wish beyond the maximum", 20 * time.Second, 1450 * time.Millisecond},
		{"a wish within", 2 * time.Second, 950 * time.Millisecond},
	} {
		for _, f := range faces {
			t.Run(string(f)+" "+tt.name, func(t *testing.T) {
				t.Parallel()
				start := time.Now()
				got := e.in(t).send(f, sending{keys: []string{unique("late")}, timeout: tt.timeout, message: purchase(unique("o"))})
				took := time.Since(start)
				if got.Reason != "DEADLINE_EXCEEDED" || got.NextAction != retrySameKey || took < tt.least || took > tt.least+6*time.Second {
					t.Errorf("after %v: %+v", took, got)
				}
			})
		}
	}
}

func TestTooLittleTimeIsRefusedBeforeAnythingIsClaimed(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	for _, f := range faces {
		key := unique("hurry")
		got := e.send(f, sending{keys: []string{key}, timeout: 150 * time.Millisecond, message: purchase("o")})
		if got.Reason != "DEADLINE_EXCEEDED" {
			t.Errorf("%s: %+v", f, got)
		}
		e.untouched(key)
	}
}

// The database may be slower than a client's patience. The answer comes at the deadline all the same, and the purchase goes on.
func TestTheAnswerComesAtTheDeadlineThoughTheDatabaseHangs(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	key, req := unique("locked"), purchase(unique("o"))
	e.hold(key, req)
	if _, err := e.db.ExecContext(t.Context(), `UPDATE idempotency_keys SET locked_until = NOW(3)`); err != nil {
		t.Fatal(err)
	}
	tx, err := e.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), `SELECT 1 FROM idempotency_keys WHERE idem_key = ? FOR UPDATE`, []byte(key)); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	got := e.send(overREST, sending{keys: []string{key}, timeout: 600 * time.Millisecond, message: req})
	if took := time.Since(start); got.Reason != "DEADLINE_EXCEEDED" || took > 1500*time.Millisecond {
		t.Errorf("after %v: %+v", took, got)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
}

func TestAClientThatHangsUpDuringTheChargeFindsItDoneLater(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	e.slowPSP(400 * time.Millisecond)
	for _, f := range faces {
		key, req := unique("left"), purchase(unique("o"))
		e.leaveDuringCharge(f, key, req)
		e.until("the key is done", func() bool { return e.keyRow(key) == "done" })
		got := e.send(f, sending{keys: []string{key}, message: req})
		if got.Payment == nil || !got.Replayed {
			t.Errorf("%s: %+v", f, got)
		}
		if n := e.charges(req.GetOrderId()); n != 1 {
			t.Errorf("%s: %d charges, want 1", f, n)
		}
	}
}

// leaveDuringCharge sends a purchase and hangs up once the PSP works on it.
func (e *env) leaveDuringCharge(f face, key string, req *paymentsv1.CreatePaymentRequest) {
	e.t.Helper()
	ctx, cancel := context.WithCancel(e.t.Context())
	defer cancel()
	done := make(chan struct{})
	mustNotBeLogged(key)
	go func() {
		defer close(done)
		if f == overGRPC {
			if _, err := e.client.CreatePayment(e.withKey(ctx, key), req); err == nil {
				e.t.Error("the client got an answer; it should have left before")
			}
			return
		}
		body := `{"order_id":"` + req.GetOrderId() + `","amount":1250,"currency":"EUR","payment_method":"tok_visa","description":"a book"}`
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+e.addrs.REST+"/payments", strings.NewReader(body))
		if err != nil {
			e.t.Error(err)
			return
		}
		r.Header = e.header(key)
		if resp, err := httpClient.Do(r); err == nil {
			e.t.Error("the client got an answer; it should have left before")
			if err := resp.Body.Close(); err != nil {
				e.t.Error(err)
			}
		}
	}()
	e.until("the PSP works on it", func() bool { return e.sim.Stats().InFlight > 0 })
	cancel()
	<-done
}

func TestStoppingLosesNothing(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{server: server.Config{DrainTimeout: 10 * time.Second}})
	e.slowPSP(time.Second)
	waiting := map[face]chan outcome{}
	for _, f := range faces {
		answer := make(chan outcome, 1)
		waiting[f] = answer
		go func() {
			answer <- e.send(f, sending{keys: []string{unique("waiting")}, message: purchase(unique("o"))})
		}()
	}
	e.until("both are at the PSP", func() bool { return e.sim.Stats().InFlight == 2 })
	if err := e.stop(); err != nil {
		t.Errorf("Run: %v", err)
	}
	for _, f := range faces {
		if got := <-waiting[f]; got.Payment == nil {
			t.Errorf("%s: a request under way was answered %+v", f, got)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+e.addrs.REST+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := httpClient.Do(req); err == nil {
		t.Errorf("the stopped server answers %s", resp.Status)
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestStoppingWaitsForPurchasesWhoseClientHasLeft(t *testing.T) {
	t.Parallel()
	for _, f := range faces {
		e := newEnv(t, options{server: server.Config{DrainTimeout: 10 * time.Second}})
		e.slowPSP(500 * time.Millisecond)
		key := unique("left")
		e.leaveDuringCharge(f, key, purchase(unique("o")))
		if err := e.stop(); err != nil {
			t.Errorf("%s: Run: %v", f, err)
		}
		if row := e.keyRow(key); row != "done" {
			t.Errorf("%s: when Run returns, the key is %s, want done", f, row)
		}
	}
}

func TestStoppingIsBounded(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{server: server.Config{DrainTimeout: 200 * time.Millisecond}})
	e.cut = true
	e.hangingPSP()
	answer := make(chan outcome, 1)
	go func() {
		answer <- e.send(overGRPC, sending{keys: []string{unique("stuck")}, timeout: 2 * time.Second, message: purchase(unique("o"))})
	}()
	e.until("it is at the PSP", func() bool { return e.sim.Stats().Hung == 1 })
	start := time.Now()
	if err := e.stop(); err == nil || time.Since(start) > 1500*time.Millisecond {
		t.Errorf("Run ended after %v with %v, want an error soon", time.Since(start), err)
	}
	if got := <-answer; got.Payment != nil {
		t.Errorf("answered %+v", got)
	}
}

func TestReadinessGoesOffBeforeServingEnds(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{server: server.Config{DrainDelay: time.Second}})
	e.until("ready over gRPC", func() bool { return e.health() == healthpb.HealthCheckResponse_SERVING })
	stopped := make(chan error, 1)
	go func() { stopped <- e.stop() }()
	e.until("not ready over gRPC", func() bool { return e.health() == healthpb.HealthCheckResponse_NOT_SERVING })
	if resp, _ := e.get("/readyz", nil); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("/readyz: %s", resp.Status)
	}
	if resp, _ := e.get("/healthz", nil); resp.StatusCode != http.StatusOK {
		t.Errorf("/healthz: %s", resp.Status)
	}
	if got := e.send(overREST, sending{keys: []string{unique("last")}, message: purchase(unique("o"))}); got.HTTP != 201 {
		t.Errorf("a request in the meantime: %+v", got)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

func (e *env) health() healthpb.HealthCheckResponse_ServingStatus {
	e.t.Helper()
	resp, err := healthpb.NewHealthClient(e.conn).Check(e.t.Context(), &healthpb.HealthCheckRequest{Service: "payments.v1.PaymentService"})
	if err != nil {
		e.t.Fatal(err)
	}
	return resp.GetStatus()
}

func TestWithoutItsDatabaseTheServerLivesAndIsNotReady(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	down := newDown(t, e.db, e.sim)
	if resp, _ := down.get("/healthz", nil); resp.StatusCode != http.StatusOK {
		t.Errorf("/healthz: %s", resp.Status)
	}
	resp, body := down.get("/readyz", nil)
	if resp.StatusCode != http.StatusServiceUnavailable || strings.Contains(body, "refused") {
		t.Errorf("/readyz: %s %s", resp.Status, body)
	}
	if got := down.health(); got != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("gRPC health: %s", got)
	}
}

func TestWhatNeedsNoAPIKey(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	for path, want := range map[string]string{
		"/healthz": "ok\n", "/readyz": "ok\n", "/openapi.json": string(paymentsv1.OpenAPI),
	} {
		if resp, body := e.get(path, nil); resp.StatusCode != http.StatusOK || body != want {
			t.Errorf("%s: %s, %d bytes", path, resp.Status, len(body))
		}
	}
	for number, reason := range paymentsv1.Reason_name {
		if number == 0 {
			continue
		}
		for accept, media := range map[string]string{"text/html,*/*": "text/html; charset=utf-8", "": "text/plain; charset=utf-8"} {
			resp, body := e.get("/problems/"+reason, http.Header{"Accept": {accept}})
			if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != media || !strings.Contains(body, reason) {
				t.Errorf("/problems/%s: %s %s %s", reason, resp.Status, resp.Header.Get("Content-Type"), body)
			}
		}
	}
	for _, path := range []string{"/docs/index.html", "/problems/NOBODY", "/problems/REASON_UNSPECIFIED", "/problems/", "/metrics", "/debug/pprof/"} {
		if resp, body := e.get(path, nil); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s %s", path, resp.Status, body)
		}
	}
	stream, err := reflectionpb.NewServerReflectionClient(e.conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectionpb.ServerReflectionRequest{
		MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: "payments.v1.PaymentService"},
	}); err != nil {
		t.Fatal(err)
	}
	if resp, err := stream.Recv(); err != nil || resp.GetFileDescriptorResponse() == nil {
		t.Errorf("reflection: %v, %v", resp, err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Error(err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("reflection ended with %v", err)
	}
}

func TestMethodsOfARoute(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	id := e.insert(e.user, "o")
	tests := []struct {
		method, path string
		want         int
		allow        string
	}{
		{http.MethodOptions, "/payments", 204, "GET, HEAD, POST, OPTIONS"},
		{http.MethodOptions, "/payments/" + id, 204, "GET, HEAD, OPTIONS"},
		{http.MethodOptions, "/nowhere", 404, ""},
		{http.MethodPut, "/payments", 405, "GET, HEAD, POST, OPTIONS"},
		{http.MethodDelete, "/payments/" + id, 405, "GET, HEAD, OPTIONS"},
		{"BREW", "/payments", 405, "GET, HEAD, POST, OPTIONS"},
		{http.MethodGet, "/payments/" + id, 200, ""},
	}
	for _, tt := range tests {
		resp, _ := e.do(tt.method, tt.path, e.header(""), nil)
		if resp.StatusCode != tt.want || resp.Header.Get("Allow") != tt.allow {
			t.Errorf("%s %s: %s, Allow %q; want %d, %q", tt.method, tt.path, resp.Status, resp.Header.Get("Allow"), tt.want, tt.allow)
		}
	}
	get, body := e.do(http.MethodGet, "/payments/"+id, e.header(""), nil)
	head, none := e.do(http.MethodHead, "/payments/"+id, e.header(""), nil)
	if head.StatusCode != 200 || none != "" || head.ContentLength != get.ContentLength || int(get.ContentLength) != len(body) {
		t.Errorf("HEAD: %s, %d bytes announced of %d, body %q", head.Status, head.ContentLength, get.ContentLength, none)
	}
}

func TestTheAdminPortServesMetricsAndProfiles(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	e.send(overREST, sending{keys: []string{unique("metric")}, message: purchase(unique("o"))})
	e.addrs.REST = e.addrs.Admin
	for path, want := range map[string]string{
		"/metrics": `chargeonce_request_duration_seconds_count{`, "/debug/pprof/": "goroutine", "/healthz": "ok",
	} {
		if resp, body := e.get(path, nil); resp.StatusCode != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %s, no %s in it", path, resp.Status, want)
		}
	}
	if resp, _ := e.get("/debug/pprof/cmdline", nil); resp.StatusCode != http.StatusNotFound {
		t.Errorf("the command line, which may hold secrets: %s", resp.Status)
	}
}

func TestAPortThatIsTakenIsAnErrorThatNamesIt(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	srv, err := server.New(server.Config{DB: e.db.DB, Flow: payment.NewFlow(e.db.DB, panics{}, server.Renderer{}, payment.Timing{}, suiteLogger),
		GRPCListen: "127.0.0.1:0", RESTListen: e.addrs.REST, AdminListen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "REST") {
		t.Errorf("Start: %v, want an error that names REST", err)
	}
}

func TestATraceFromTheClientIsTheRequestsTrace(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	header := e.header("")
	header.Set("Traceparent", "00-"+trace+"-00f067aa0ba902b7-01")
	if got := e.rest(http.MethodGet, "/payments", header, ""); got.Header.Get("X-Trace-Id") != trace {
		t.Errorf("X-Trace-Id %q", got.Header.Get("X-Trace-Id"))
	}
	suite.mu.Lock()
	defer suite.mu.Unlock()
	if !strings.Contains(suite.log.String(), `"method":"ListPayments","face":"rest","code":"OK"`) || !strings.Contains(suite.log.String(), `"trace_id":"`+trace) {
		t.Error("the request's log line does not carry the trace id")
	}
}
