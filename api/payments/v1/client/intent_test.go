package client_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/testing/protocmp"

	"chargeonce/api/payments/v1/client"
)

func TestIntentSurvivesItsJSONForm(t *testing.T) {
	t.Parallel()
	for _, key := range []client.Key{client.NewKey(), `a "quoted" \ key, with a comma`} {
		intent := client.Intent{Key: key, Request: purchase()}
		text, err := json.Marshal(intent)
		if err != nil {
			t.Fatal(err)
		}
		var back client.Intent
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(intent, back, protocmp.Transform()); diff != "" {
			t.Errorf("intent (-want +got):\n%s", diff)
		}
	}
}

func TestKeptIntentIsRefusedRatherThanReadInPart(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"no key":             `{"request":{"order_id":"o-1"}}`,
		"an unknown field":   `{"idempotency_key":"k","request":{"order_id":"o-1","tip":"100"}}`,
		"no request":         `{"idempotency_key":"k"}`,
		"a key with a break": `{"idempotency_key":"k\n","request":{"order_id":"o-1"}}`,
		"no object":          `[]`,
	} {
		intent := client.NewIntent(purchase())
		before := intent
		if err := json.Unmarshal([]byte(text), &intent); err == nil {
			t.Errorf("%s: read as %v", name, intent)
		}
		if intent != before {
			t.Errorf("%s: the intent was changed", name)
		}
	}
}

func TestNewIntentMintsAKeyAndCopiesTheRequest(t *testing.T) {
	t.Parallel()
	req := purchase()
	a, b := client.NewIntent(req), client.NewIntent(req)
	if a.Key == b.Key || len(a.Key) < 26 {
		t.Errorf("keys %q and %q", a.Key, b.Key)
	}
	req.Amount = 1
	if a.Request.GetAmount() != 1250 {
		t.Error("the intent changed with the caller's request")
	}
}

func TestPayRefusesAnIntentThatCannotBeSent(t *testing.T) {
	t.Parallel()
	for name, intent := range map[string]client.Intent{
		"no key":               {Request: purchase()},
		"no request":           {Key: "k"},
		"256 characters":       {Key: client.Key(strings.Repeat("k", 256)), Request: purchase()},
		"a character of UTF-8": {Key: "ключ", Request: purchase()},
	} {
		s := &script{answers: answers{charged}}
		if out, err := newClient(t, client.Config{HTTP: s}).Pay(t.Context(), intent); err == nil || len(s.keys) != 0 {
			t.Errorf("%s: got %v after %d requests, want an error after none", name, out, len(s.keys))
		}
	}
}

func TestKeyIsSentAsAStructuredFieldString(t *testing.T) {
	t.Parallel()
	s := &script{answers: answers{charged}}
	intent := client.Intent{Key: `a "b" \c, d`, Request: purchase()}
	if _, err := newClient(t, client.Config{HTTP: s}).Pay(t.Context(), intent); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{`"a \"b\" \\c, d"`}, s.keys); diff != "" {
		t.Errorf("Idempotency-Key (-want +got):\n%s", diff)
	}
}

func TestAPIKeyDoesNotPrint(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	cfg := client.Config{APIKey: "sk_test_secret"}
	slog.New(slog.NewTextHandler(&log, nil)).Info("m", "key", cfg.APIKey)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("m", "key", cfg.APIKey)
	text, err := json.Marshal(map[string]any{"key": cfg.APIKey})
	if err != nil {
		t.Fatal(err)
	}
	if shown := log.String() + string(text) + fmt.Sprintf("%v %+v %#v %s", cfg, cfg, cfg, cfg.APIKey); strings.Contains(shown, "secret") {
		t.Errorf("the API key shows: %s", shown)
	}
}

func TestNewRefusesAConfigurationThatNamesNoOneService(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]client.Config{
		"nothing":              {APIKey: "k"},
		"no API key":           {BaseURL: "http://a.test"},
		"two places":           {APIKey: "k", BaseURL: "http://a.test", Target: "a.test:9090"},
		"no scheme":            {APIKey: "k", BaseURL: "a.test"},
		"another scheme":       {APIKey: "k", BaseURL: "ftp://a.test"},
		"a connection as well": {APIKey: "k", BaseURL: "http://a.test", Conn: &grpc.ClientConn{}},
		"a negative number":    {APIKey: "k", BaseURL: "http://a.test", MaxTries: -1},
		"a broken target":      {APIKey: "k", Target: "\x00"},
	} {
		if _, err := client.New(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestGetDoesNotAskForAnotherPath(t *testing.T) {
	t.Parallel()
	var path string
	c := newClient(t, client.Config{HTTP: roundTripper(func(r *http.Request) (*http.Response, error) {
		path = r.URL.EscapedPath()
		return charged(r)
	})})
	for _, id := range []string{"", ".", ".."} {
		if _, err := c.Get(t.Context(), id); err == nil || path != "" {
			t.Errorf("id %q: error %v, path %q", id, err, path)
		}
	}
	if _, err := c.Get(t.Context(), "a/../b?c"); err != nil || path != "/payments/a%2F..%2Fb%3Fc" {
		t.Errorf("error %v, path %q", err, path)
	}
}
