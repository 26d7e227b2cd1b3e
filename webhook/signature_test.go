package webhook_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chargeonce/internal/telemetry"
	"chargeonce/webhook"
)

// What is believed, and what is not; every refusal looks the same.
func signatureDecidesWhoIsBelieved(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	now := time.Unix(1_796_000_000, 0)
	handler, err := webhook.New(webhook.Config{
		DB: e.db, Flow: e.flow, Secrets: []telemetry.Secret{secretA, secretB}, Logger: quiet(),
		Now: func() time.Time { return now },
	})
	if err != nil {
		t.Fatal(err)
	}
	secretC := telemetry.Secret("whsec_Y2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjYw==")
	tamper := func(header, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(header, value) }
	}
	double := func(header string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Add(header, r.Header.Get(header)) }
	}
	for _, tt := range []struct {
		name    string
		at      time.Time
		secrets []telemetry.Secret
		tamper  func(*http.Request)
		want    int
	}{
		{"the first secret", now, []telemetry.Secret{secretA}, nil, 200},
		{"the second secret, during a rotation", now, []telemetry.Secret{secretB}, nil, 200},
		{"an unknown and a known secret", now, []telemetry.Secret{secretC, secretB}, nil, 200},
		{"a wrong secret", now, []telemetry.Secret{secretC}, nil, 401},
		{"5 min old", now.Add(-5 * time.Minute), []telemetry.Secret{secretA}, nil, 200},
		{"too old", now.Add(-5*time.Minute - time.Second), []telemetry.Secret{secretA}, nil, 401},
		{"5 min ahead", now.Add(5 * time.Minute), []telemetry.Secret{secretA}, nil, 200},
		{"too far ahead", now.Add(5*time.Minute + time.Second), []telemetry.Secret{secretA}, nil, 401},
		{"another time than was signed", now, []telemetry.Secret{secretA}, tamper("webhook-timestamp", "1"), 401},
		{"a time that is none", now, []telemetry.Secret{secretA}, tamper("webhook-timestamp", "now"), 401},
		{"a time out of all bounds", now, []telemetry.Secret{secretA}, tamper("webhook-timestamp", "9223372036854775807"), 401},
		{"another id than was signed", now, []telemetry.Secret{secretA}, tamper("webhook-id", "evt_other"), 401},
		{"no id", now, []telemetry.Secret{secretA}, tamper("webhook-id", ""), 401},
		{"no time", now, []telemetry.Secret{secretA}, tamper("webhook-timestamp", ""), 401},
		{"no signature", now, []telemetry.Secret{secretA}, tamper("webhook-signature", ""), 401},
		{"two ids", now, []telemetry.Secret{secretA}, double("webhook-id"), 401},
		{"two times", now, []telemetry.Secret{secretA}, double("webhook-timestamp"), 401},
		{"two signature headers", now, []telemetry.Secret{secretA}, double("webhook-signature"), 401},
		{"a signature of another scheme", now, []telemetry.Secret{secretA}, func(r *http.Request) {
			r.Header.Set("webhook-signature", strings.Replace(r.Header.Get("webhook-signature"), "v1,", "v1a,", 1))
		}, 401},
		{"another body than was signed", now, []telemetry.Secret{secretA}, func(r *http.Request) {
			r.Body = io.NopCloser(strings.NewReader(`{"type":"test.other"}`))
		}, 401},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPurchase(t)
			r := signed(t, "evt_"+p.chargeID, tt.at, body(t, "test.unknown", nil), tt.secrets...)
			if tt.tamper != nil {
				tt.tamper(r)
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code != tt.want {
				t.Fatalf("answered %d %s, want %d", w.Code, w.Body, tt.want)
			}
			if w.Code == 200 {
				return
			}
			const bland = `{"type":"about:blank","title":"Unauthorized","status":401,"detail":"The signature was not accepted."}`
			if diff := cmp.Diff(bland, w.Body.String()); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBodyIsBounded(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	exactly := body(t, "test.unknown", strings.Repeat("x", 100))
	exactly = append(exactly, bytes.Repeat([]byte(" "), webhook.MaxBody-len(exactly))...)
	if code, text := e.deliver("evt_large", exactly); code != 200 {
		t.Errorf("64 KiB: %d %s", code, text)
	}
	if code, text := e.deliver("evt_larger", append(exactly, ' ')); code != 413 {
		t.Errorf("64 KiB and a byte: %d %s, want 413", code, text)
	}
	if code, text := e.deliver(strings.Repeat("i", webhook.MaxID+1), body(t, "test.unknown", nil)); code != 400 {
		t.Errorf("an id of 256 bytes: %d %s, want 400", code, text)
	}
}

func TestNewRefusesSecretsThatGuardNothing(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for _, secrets := range [][]telemetry.Secret{
		nil, {""}, {"whsec_"}, {"whsec_c2hvcnQ="}, {"whsec_!"}, {"YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYQ=="}, {secretA, "whsec_"},
	} {
		if _, err := webhook.New(webhook.Config{DB: e.db, Flow: e.flow, Secrets: secrets}); err == nil {
			t.Errorf("%d secrets were taken", len(secrets))
		}
	}
}
