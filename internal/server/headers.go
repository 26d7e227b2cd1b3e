package server

import "net/http"

// apiCSP is for what is no page: it loads nothing, and no page frames it.
const apiCSP = "default-src 'none'; frame-ancestors 'none'"

// hsts has a browser that was here over TLS come back over TLS alone, for a year (RFC 6797). Where a proxy ends TLS, the header is
// the proxy's to send.
const hsts = "max-age=31536000"

// secure sets the headers that every REST response has. A handler may replace one of them, as the page at /docs does.
func secure(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", apiCSP)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	if r.TLS != nil {
		h.Set("Strict-Transport-Security", hsts)
	}
}
