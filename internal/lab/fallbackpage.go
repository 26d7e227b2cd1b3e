package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"chargeonce/internal/psp"
)

// orderPage is the page of one order. What it is about it knows itself; the widget, the PSP's word on the charge, is a dependency
// that it can do without. With fallback it does; without, it fails as its dependency does.
type orderPage struct {
	psp      *psp.Client
	charge   string
	fallback bool
}

// ServeHTTP implements http.Handler.
func (p *orderPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	widget := widgetShown
	if _, err := p.psp.Get(r.Context(), p.charge); err != nil {
		if !p.fallback {
			http.Error(w, "the page can't be shown", http.StatusBadGateway)
			return
		}
		widget = widgetHidden
	}
	w.Header().Set("Widget", widget)
	w.WriteHeader(http.StatusOK) // the record itself would follow
}

// pageServer serves a page on a port of the loopback interface.
type pageServer struct {
	http   *http.Server
	client *http.Client
	url    string
	served chan error
}

func serveOrderPage(p *orderPage) (*pageServer, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serve the page: %w", err)
	}
	s := &pageServer{
		http:   &http.Server{Handler: p, ReadHeaderTimeout: adminTimeout},
		client: &http.Client{Timeout: unhurried, Transport: &http.Transport{}},
		url:    "http://" + listener.Addr().String() + "/",
		served: make(chan error, 1),
	}
	go func() { s.served <- s.http.Serve(listener) }()
	return s, nil
}

// close ends the server and waits until it has ended.
func (s *pageServer) close() error {
	s.client.CloseIdleConnections()
	err := s.http.Close()
	if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// visited is what a visitor sees.
type visited struct {
	status int
	widget string
	took   time.Duration
}

// answered reports whether it is the page.
func (v visited) answered() bool { return v.status == http.StatusOK }

func (v visited) String() string { return fmt.Sprintf("%d in %s", v.status, ms(v.took)) }

// visit asks for the page once.
func (s *pageServer) visit(ctx context.Context) (v visited, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return v, fmt.Errorf("visit the page: %w", err)
	}
	began := time.Now()
	resp, err := s.client.Do(req)
	if err != nil {
		return v, fmt.Errorf("visit the page: %w", err)
	}
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAdminPage))
	v = visited{status: resp.StatusCode, widget: resp.Header.Get("Widget"), took: time.Since(began)}
	return v, errors.Join(err, resp.Body.Close())
}
