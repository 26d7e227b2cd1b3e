package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestProbe(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(w http.ResponseWriter, _ *http.Request) {
		if _, err := io.WriteString(w, "ok\n"); err != nil {
			t.Error(err)
		}
	})
	mux.Handle("/moved", http.RedirectHandler("/ok", http.StatusFound))
	mux.HandleFunc("/away", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	mux.HandleFunc("/hangs", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)

	for path, want := range map[string]string{"/ok": "", "/moved": "302 Found", "/away": "503 Service Unavailable"} {
		err := probeCmd{URL: srv.URL + path, Timeout: time.Minute}.Run(t.Context())
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v; want %q", path, err, want)
		}
	}
	if err := (probeCmd{URL: srv.URL + "/hangs", Timeout: 50 * time.Millisecond}).Run(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("of an answer that never comes: %v; want a deadline", err)
	}
}

func TestProbeOfNobody(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.NotFoundHandler())
	srv.Close()
	if err := (probeCmd{URL: srv.URL, Timeout: time.Minute}).Run(t.Context()); err == nil {
		t.Error("nobody listens, and the probe is content")
	}
}
