package server_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// loads are the places in a page where a browser goes to fetch something.
var loads = regexp.MustCompile(`(?:src|href)="([^"]*)"`)

// What the page loads is here, and its policy forbids all that is elsewhere, a script in the page too.
func TestTheDocsPageLoadsNothingFromElsewhere(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	page := e.rest(http.MethodGet, "/docs", nil, "")
	csp := page.Header.Get("Content-Security-Policy")
	if page.HTTP != http.StatusOK || !strings.HasPrefix(csp, "default-src 'none'; script-src 'self';") ||
		strings.Contains(csp, "unsafe") || strings.Contains(csp, "http") {
		t.Errorf("%d, policy %q", page.HTTP, csp)
	}
	found := 0
	for _, m := range loads.FindAllStringSubmatch(page.Body, -1) {
		if m[1] == "data:," { // no icon
			continue
		}
		found++
		want := map[string]string{"css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}[m[1][len(m[1])-3:]]
		for _, accept := range []string{"gzip", "identity"} {
			resp, body := e.get("/"+m[1], http.Header{"Accept-Encoding": {accept}})
			zipped := strings.HasPrefix(body, "\x1f\x8b")
			if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != want || len(body) < 100 ||
				zipped != (resp.Header.Get("Content-Encoding") == "gzip") || zipped && accept != "gzip" {
				t.Errorf("%s as %s: %s, %v, %d bytes", m[1], accept, resp.Status, resp.Header, len(body))
			}
		}
	}
	if found != 3 || strings.Contains(page.Body, "<script>") {
		t.Errorf("the page loads %d files, want 3, and has no script of its own:\n%s", found, page.Body)
	}
	for _, path := range []string{"/docs/nothing.js", "/docs/index.html", "/docs/../go.mod"} {
		if resp, _ := e.get(path, nil); resp.StatusCode == http.StatusOK {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
}
