package server

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io"
	"net/http"
	"strings"

	swaggerui "github.com/swaggest/swgui/v5/static"

	paymentsv1 "chargeonce/api/payments/v1"
)

//go:embed docs
var docs embed.FS

// docsCSP lets the page at /docs load what this server has, and talk to this server, alone. Swagger UI draws its arrows from
// data: URIs.
const docsCSP = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// docsFiles are what the page at /docs loads. Swagger UI comes out of the binary, compressed as it is there.
var docsFiles = map[string]struct {
	read      func(string) ([]byte, error)
	path      string
	mediaType string
	gzipped   bool
}{
	"init.js":              {docs.ReadFile, "docs/init.js", "text/javascript; charset=utf-8", false},
	"swagger-ui.css":       {swaggerui.FS.ReadFile, "swagger-ui.css.gz", "text/css; charset=utf-8", true},
	"swagger-ui-bundle.js": {swaggerui.FS.ReadFile, "swagger-ui-bundle.js.gz", "text/javascript; charset=utf-8", true},
}

// docsPage renders /openapi.json for people.
func (s *Server) docsPage(w http.ResponseWriter, r *http.Request) {
	page, err := docs.ReadFile("docs/index.html")
	if err != nil {
		s.refuse(w, r, fmt.Errorf("server: docs: %w", err))
		return
	}
	w.Header().Set("Content-Security-Policy", docsCSP)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	s.send(w, r, page)
}

func (s *Server) docsFile(w http.ResponseWriter, r *http.Request) {
	file, ok := docsFiles[r.PathValue("file")]
	if !ok {
		s.refuse(w, r, &problem{reason: paymentsv1.Reason_NOT_FOUND})
		return
	}
	content, err := file.read(file.path)
	h := w.Header()
	switch {
	case err != nil:
	case file.gzipped && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip"):
		h.Set("Content-Encoding", "gzip")
	case file.gzipped:
		content, err = gunzip(content)
	}
	if err != nil {
		s.refuse(w, r, fmt.Errorf("server: docs: %w", err))
		return
	}
	h.Set("Vary", "Accept-Encoding")
	h.Set("Cache-Control", "public, max-age=3600")
	h.Set("Content-Type", file.mediaType)
	s.send(w, r, content)
}

func gunzip(content []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// send writes the body of a page.
func (s *Server) send(w http.ResponseWriter, r *http.Request, body []byte) {
	if _, err := w.Write(body); err != nil {
		s.log.InfoContext(r.Context(), "the client left before its answer was written", "error", err)
	}
}
