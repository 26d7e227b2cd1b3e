package psp

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// serverClient is a client with its real transport. Its breaker is off, and its attempts have time enough on a busy machine.
func serverClient(t *testing.T, url string, cfg Config) *Client {
	t.Helper()
	cfg.BaseURL, cfg.APIKey = url, "sk_test"
	cfg.Logger = slog.New(slog.DiscardHandler)
	cfg.BreakerOff = true
	setDefault(&cfg.AttemptTimeout, 10*time.Second)
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestChargeSendsWhatTheContractAsksFor(t *testing.T) {
	t.Parallel()
	type request struct {
		Line, Auth, Key, Type, Encoding string
		HasTimeout                      bool
		Body                            map[string]any
	}
	got := make(chan request, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req := request{Line: r.Method + " " + r.URL.String(), Auth: r.Header.Get("Authorization"), Key: r.Header.Get("Idempotency-Key"),
			Type: r.Header.Get("Content-Type"), Encoding: strings.Join(r.TransferEncoding, ",")}
		timeout := r.Header.Get("Grpc-Timeout")
		req.HasTimeout = strings.HasSuffix(timeout, "m") && len(timeout) == len("8990m")
		if err := json.NewDecoder(r.Body).Decode(&req.Body); err != nil {
			t.Error(err)
		}
		got <- req
		w.WriteHeader(http.StatusCreated)
		if _, err := io.WriteString(w, chargeJSON(testKey, "succeeded")); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	c := serverClient(t, server.URL+"/v1", Config{})

	result := c.Charge(within(t, 9*time.Second), testRequest)

	want := Result{Kind: Succeeded, Attempts: 1, Charge: &Charge{ID: "ch_1", IdempotencyKey: testKey, Amount: 1999, Currency: "EUR",
		Status: "succeeded", Metadata: testRequest.Metadata, CreatedAt: time.Date(2026, 11, 30, 6, 0, 0, 123e6, time.UTC)}}
	if diff := cmp.Diff(want, result); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
	wantRequest := request{Line: "POST /v1/charges", Auth: "Bearer sk_test", Key: testKey, Type: "application/json", HasTimeout: true,
		Body: map[string]any{"amount": 1999.0, "currency": "EUR", "payment_method": "tok_visa", "description": "a book",
			"metadata": map[string]any{"user_id": "42", "payment_id": "pay_1", "order_id": "o-1"}}}
	if diff := cmp.Diff(wantRequest, <-got); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}

func TestAnAnswerThatIsCutIsUnknownAndTriedAgain(t *testing.T) {
	t.Parallel()
	var posts atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := chargeJSON(testKey, "succeeded")
		if posts.Add(1) == 1 {
			w.Header().Set("Content-Length", "4000")
		}
		w.WriteHeader(http.StatusCreated)
		if _, err := io.WriteString(w, body); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	c := serverClient(t, server.URL, Config{BackoffBase: time.Millisecond})
	r := c.Charge(within(t, 20*time.Second), testRequest)
	if r.Kind != Succeeded || r.Attempts != 2 || posts.Load() != 2 {
		t.Errorf("got %v in %d attempts: %v", r.Kind, r.Attempts, r.Err)
	}
}

func TestABodyOverTheBoundIsNotReadAndSaidToBe(t *testing.T) {
	t.Parallel()
	big := chargeJSON(testKey, "succeeded", "description", `"`+strings.Repeat("x", maxBody)+`"`)
	r := testClient(t, Config{}, newFakePSP(respond(201, big)), noJitter).Charge(t.Context(), testRequest)
	if r.Kind != Unknown || r.Attempts != 1 || r.Err.Error() != "psp: charge 1: answered 201: body over 65536 bytes" {
		t.Errorf("got %+v", r)
	}
}

func TestARedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/charges" {
			elsewhere.Add(1)
		}
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}))
	t.Cleanup(server.Close)
	c := serverClient(t, server.URL, Config{})
	r := c.Charge(within(t, 20*time.Second), testRequest)
	if r.Kind != Unknown || r.Attempts != 1 || elsewhere.Load() != 0 {
		t.Errorf("got %v in %d attempts, %d requests elsewhere", r.Kind, r.Attempts, elsewhere.Load())
	}
}

// TestNoErrorTellsTheKeyOrTheCredential: in a look-up the key stands in the URL, which net/http's client would repeat.
func TestNoErrorTellsTheKeyOrTheCredential(t *testing.T) {
	t.Parallel()
	c := serverClient(t, closedAddress(t), Config{MaxAttempts: 1})
	err := c.LookUp(within(t, 20*time.Second), "very-secret-key", testRequest.Expect()).Err
	if err == nil || strings.Contains(err.Error(), "very-secret-key") || strings.Contains(err.Error(), "sk_test") {
		t.Errorf("got %v", err)
	}
}

func TestAKeyThatNoHeaderCanCarryIsNotSent(t *testing.T) {
	t.Parallel()
	psp := newFakePSP(charged)
	c := testClient(t, Config{}, psp, noJitter)
	for _, key := range []string{"", "a\r\nb", "a b", "ключ", strings.Repeat("k", 256)} {
		req := testRequest
		req.Key = key
		for _, r := range []Result{c.Charge(t.Context(), req), c.LookUp(t.Context(), key, req.Expect()), c.Cancel(t.Context(), key, req.Expect())} {
			if r.Kind != NotSent || r.NotSent != InvalidRequest || r.Err == nil {
				t.Errorf("key %q: got %+v", key, r)
			}
		}
	}
	if got := psp.requests(); len(got) != 0 {
		t.Errorf("sent %v", got)
	}
}

func TestGRPCTimeoutHasAtMostEightDigits(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second:                    "1m",
		1500*time.Millisecond + 999_999: "1500m",
		99_999_999 * time.Millisecond:   "99999999m",
		100_000_000 * time.Millisecond:  "100000S",
		200_000_000*time.Second + 999e6: "99999999S",
	} {
		if got := grpcTimeout(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}

func TestRetryAfterIsReadAsSecondsOrAsADate(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 6, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		value, date string
		want        time.Duration
	}{
		{"", "", 0},
		{"3", "", 3 * time.Second},
		{"0", "", 0},
		{"-3", "", 0},
		{"1.5", "", 0},
		{"soon", "", 0},
		{"99999999999999", "", longestRetryAfter},
		{"Mon, 30 Nov 2026 06:00:05 GMT", "", 5 * time.Second},
		{"Mon, 30 Nov 2026 05:59:00 GMT", "", 0},
		{"Mon, 30 Nov 2026 06:10:02 GMT", "Mon, 30 Nov 2026 06:10:00 GMT", 2 * time.Second},
		{"Mon, 30 Nov 2099 06:00:00 GMT", "", longestRetryAfter},
	} {
		h := http.Header{"Retry-After": {tc.value}, "Date": {tc.date}}
		if got := parseRetryAfter(h, now); got != tc.want {
			t.Errorf("%q with Date %q: got %v, want %v", tc.value, tc.date, got, tc.want)
		}
	}
}
