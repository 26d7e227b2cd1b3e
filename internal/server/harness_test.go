package server_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	paymentsv1 "chargeonce/api/payments/v1"
	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/internal/mysql"
	"chargeonce/internal/payment"
	"chargeonce/internal/psp"
	"chargeonce/internal/server"
	"chargeonce/internal/telemetry"
)

// suite is everything that the servers of this package's tests logged, and the secrets that they were sent.
var suite struct {
	mu      sync.Mutex
	log     bytes.Buffer
	secrets map[string]bool
}

type suiteLog struct{}

func (suiteLog) Write(p []byte) (int, error) {
	suite.mu.Lock()
	defer suite.mu.Unlock()
	return suite.log.Write(p)
}

// mustNotBeLogged records a secret that a test sends. Those too short to be told from other text are left out.
func mustNotBeLogged(secret string) {
	if len(secret) < 8 {
		return
	}
	suite.mu.Lock()
	defer suite.mu.Unlock()
	if suite.secrets == nil {
		suite.secrets = map[string]bool{}
	}
	suite.secrets[secret] = true
}

var neverLogged = regexp.MustCompile(`tok_|sk_test_[A-Za-z0-9_-]{5}|[0-9]([ -]?[0-9]){15}`)

var suiteLogger *slog.Logger

// metrics is what the admin port of every server serves.
var metrics http.Handler

// TestMain sets telemetry up as a process does. It looks, after all tests, through all logs, spans and metrics: no API key, idempotency
// key, token or card number.
func TestMain(m *testing.M) {
	err := os.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20") // spans are looked for by tests
	if err == nil {
		suiteTelemetry, err = telemetry.Setup(context.Background(), telemetry.Config{
			Service: "test", Log: telemetry.LogConfig{Level: slog.LevelDebug, Format: "json", Output: suiteLog{}},
			Traces: telemetry.TraceConfig{Exporter: &exported, SampleRatio: 1},
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	suiteLogger, metrics = suiteTelemetry.Log, suiteTelemetry.Metrics
	code := m.Run()
	told, err := everythingTold()
	if err != nil {
		fmt.Fprintln(os.Stderr, "FAIL:", err)
		code = 1
	}
	suite.mu.Lock()
	defer suite.mu.Unlock()
	for line := range strings.Lines(told) {
		leaked := neverLogged.MatchString(withoutIDs(line))
		for secret := range suite.secrets {
			leaked = leaked || strings.Contains(line, secret)
		}
		if leaked {
			fmt.Fprintf(os.Stderr, "FAIL: a secret was told: %s", line)
			code = 1
		}
	}
	os.Exit(code)
}

// What has many digits and is no card number: UUIDs, positions in a stack, fractions, our and the PSP's ids, and traces and hashes, which are hex of
// their length with a letter in it.
var (
	idForms = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|0x[0-9a-f]+|\b(key|ch|evt)_[0-9a-z]+|\b[0-9]+\.[0-9]+\b`)
	longHex = regexp.MustCompile(`\b[0-9a-f]{16}([0-9a-f]{16})?([0-9a-f]{32})?\b`)
)

func withoutIDs(line string) string {
	return longHex.ReplaceAllStringFunc(idForms.ReplaceAllString(line, ""), func(hex string) string {
		if strings.ContainsAny(hex, "abcdef") {
			return ""
		}
		return hex
	})
}

// The search of all that was told can fail: it sees card numbers as they are written, also beside ids.
func TestTheSearchForCardNumbersFindsThem(t *testing.T) {
	t.Parallel()
	const ids = "trace_id=0af7651916cd43dd8448eb211c80319c payment_id=pay_01998a3e-7c1d-7f2a-8b3c-012345678901 key=key_12345678 0xc000123456789012 "
	for _, card := range []string{"4929123412341234", "4929 1234 1234 1234", "4929-1234-1234-1234"} {
		if !neverLogged.MatchString(withoutIDs(ids + "error=" + card)) {
			t.Errorf("%s was not found", card)
		}
	}
	if neverLogged.MatchString(withoutIDs(ids)) {
		t.Errorf("an id passes for a card number: %s", withoutIDs(ids))
	}
}

// env is a server with its own database, PSP and API key.
type env struct {
	t      *testing.T
	db     *mysql.TestDB
	sim    *gatewaysim.Running
	addrs  server.Addrs
	client paymentsv1.PaymentServiceClient
	conn   *grpc.ClientConn
	stop   func() error // what Run returned
	cut    bool         // the test stops it before its requests can end
	user   int64
	apiKey string
}

// options change what an env is made of.
type options struct {
	db     *mysql.TestDB       // share another env's
	sim    *gatewaysim.Running // share another env's
	pool   *sql.DB             // what the server uses in place of db
	psp    psp.Config
	fake   payment.PSP // in place of the simulator's client
	timing payment.Timing
	server server.Config
	user   int64
	// onePerOrder is the flow's OnePaymentPerOrder.
	onePerOrder bool
}

const (
	user      = int64(42)
	pageToken = telemetry.Secret("a secret for page tokens")
)

func newEnv(t *testing.T, o options) *env {
	t.Helper()
	e := &env{t: t, db: o.db, sim: o.sim, user: user}
	if o.user != 0 {
		e.user = o.user
	}
	if e.db == nil {
		e.db = mysql.NewTestDB(t)
	}
	if e.sim == nil {
		e.sim = gatewaysim.Start(t, gatewaysim.Config{PendingAfter: time.Hour})
	}
	log := suiteLogger
	provider := o.fake
	if provider == nil {
		c := o.psp
		if c.BaseURL == "" {
			c.BaseURL = e.sim.URL
		}
		c.APIKey, c.Logger = telemetry.Secret(e.sim.APIKey), log
		client, err := psp.New(c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		provider = client
	}
	c := o.server
	c.DB = e.db.DB
	if o.pool != nil {
		c.DB = o.pool
	}
	c.Log, c.Metrics = log, metrics
	c.Flow = payment.NewFlow(c.DB, provider, server.Renderer{}, o.timing, log)
	c.Flow.OnePaymentPerOrder = o.onePerOrder
	c.GRPCListen, c.RESTListen, c.AdminListen = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	if c.PageTokenKey == "" {
		c.PageTokenKey = pageToken
	}
	srv, err := server.New(c)
	if err != nil {
		t.Fatal(err)
	}
	e.serve(srv)
	e.apiKey = e.newAPIKey(e.user)
	return e
}

func (e *env) serve(srv *server.Server) {
	t := e.t
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	if err := srv.Start(ctx); err != nil {
		cancel()
		t.Fatal(err)
	}
	e.addrs = srv.Addrs()
	done := make(chan error, 1)
	go func() { done <- srv.Run(ctx) }()
	e.stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() {
		if err := e.stop(); err != nil && !e.cut {
			t.Errorf("the server did not stop cleanly: %v", err)
		}
	})
	conn, err := grpc.NewClient(e.addrs.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Errorf("close the gRPC connection: %v", err)
		}
	})
	e.conn, e.client = conn, paymentsv1.NewPaymentServiceClient(conn)
}

func (e *env) newAPIKey(userID int64) string {
	e.t.Helper()
	_, key, err := server.CreateAPIKey(e.t.Context(), e.db.DB, userID)
	if err != nil {
		e.t.Fatal(err)
	}
	mustNotBeLogged(key.Reveal())
	return key.Reveal()
}

// unique returns a name that no other test uses.
func unique(prefix string) string { return prefix + "-" + rand.Text() }

// until polls until ok or for at most 10 s.
func (e *env) until(what string, ok func() bool) {
	e.t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			e.t.Fatalf("waited in vain: %s", what)
		}
	}
}

// get reads a path of the REST port as it is.
func (e *env) get(path string, header http.Header) (*http.Response, string) {
	e.t.Helper()
	return e.do(http.MethodGet, path, header, nil)
}

func (e *env) do(method, path string, header http.Header, body io.Reader) (*http.Response, string) {
	e.t.Helper()
	req, err := http.NewRequestWithContext(e.t.Context(), method, "http://"+e.addrs.REST+path, body)
	if err != nil {
		e.t.Fatal(err)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := httpClient.Do(req)
	if err != nil {
		e.t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		e.t.Fatal(err)
	}
	return resp, string(text)
}

var httpClient = &http.Client{
	Timeout:       60 * time.Second,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// keyRow is what idempotency_keys holds of a key: "none", or its status.
func (e *env) keyRow(key string) string {
	e.t.Helper()
	var status string
	err := e.db.QueryRowContext(e.t.Context(), `SELECT status FROM idempotency_keys WHERE user_id = ? AND idem_key = ?`, e.user, []byte(key)).Scan(&status)
	if errors.Is(err, sql.ErrNoRows) {
		return "none"
	}
	if err != nil {
		e.t.Fatal(err)
	}
	return status
}

func (e *env) count(query string, args ...any) int {
	e.t.Helper()
	var n int
	if err := e.db.QueryRowContext(e.t.Context(), query, args...).Scan(&n); err != nil {
		e.t.Fatal(err)
	}
	return n
}

// charges counts the charges that the PSP holds for an order.
func (e *env) charges(orderID string) int {
	e.t.Helper()
	all, err := e.sim.Charges()
	if err != nil {
		e.t.Fatal(err)
	}
	n := 0
	for _, c := range all {
		if c.Metadata["order_id"] == orderID {
			n++
		}
	}
	return n
}

func purchase(orderID string) *paymentsv1.CreatePaymentRequest {
	return &paymentsv1.CreatePaymentRequest{OrderId: orderID, Amount: 1250, Currency: "EUR", PaymentMethod: "tok_visa", Description: "a book"}
}
