package server_test

import (
	"net/http"
	"strings"
	"testing"
)

func TestEveryRESTAnswerHasTheSecurityHeaders(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	id := e.insert(e.user, "o")
	for _, path := range []string{"/payments", "/payments/" + id, "/payments/none", "/nowhere", "/healthz", "/readyz", "/openapi.json",
		"/problems/INTERNAL", "/docs", "/docs/init.js"} {
		resp, _ := e.get(path, e.header(""))
		h := resp.Header
		cache := "no-store"
		if strings.HasPrefix(path, "/docs/") || strings.HasPrefix(path, "/problems/") { // the same for everybody
			cache = "public, max-age=3600"
		}
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" || h.Get("Cache-Control") != cache ||
			!strings.HasPrefix(h.Get("Content-Security-Policy"), "default-src 'none'") ||
			!strings.HasSuffix(h.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
			t.Errorf("%s: %v", path, h)
		}
		if got := h.Get("Strict-Transport-Security"); got != "" {
			t.Errorf("%s: over a connection in clear: Strict-Transport-Security %q, which nobody may believe there", path, got)
		}
		if h.Get("Server") != "" || h.Get("X-Powered-By") != "" {
			t.Errorf("%s: tells what it runs on", path)
		}
	}
	if resp, _ := e.do(http.MethodPost, "/payments", e.header(unique("k")), strings.NewReader("{")); resp.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("an error of a payment: %v", resp.Header)
	}
}
