package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
)

// Addrs are where a server listens, as host:port.
type Addrs struct {
	GRPC  string `json:"grpc"`
	REST  string `json:"rest"`
	Admin string `json:"admin"`
}

// Server is one `chargeonce serve`. Restart replaces its Process, so a Server is for one goroutine at a time.
type Server struct {
	*Process
	// Name is its name among the rig's.
	Name string
	Addrs

	rig  *Rig
	psp  *PSP
	args []string
}

// StartServer starts a server on free ports and waits until it is ready. args are further flags of serve.
func (r *Rig) StartServer(ctx context.Context, name string, psp *PSP, args ...string) (*Server, error) {
	const free = "127.0.0.1:0"
	s := &Server{Name: name, Addrs: Addrs{GRPC: free, REST: free, Admin: free}, rig: r, psp: psp, args: args}
	return s, s.start(ctx)
}

// Restart starts the server again, after it has ended, on the addresses that it had: others know them.
func (s *Server) Restart(ctx context.Context) error {
	select {
	case <-s.Done():
		return s.start(ctx)
	default:
		return fmt.Errorf("rig: %s has not ended", s.Name)
	}
}

// URL is the REST face.
func (s *Server) URL() string { return "http://" + s.REST }

// WebhookURL is where the PSP's events go.
func (s *Server) WebhookURL() string { return s.URL() + "/webhooks/psp" }

func (s *Server) start(ctx context.Context) error {
	if !s.rig.hasService() {
		return ErrNoService
	}
	ctx, cancel := context.WithTimeout(ctx, s.rig.cfg.Patience)
	defer cancel()
	addrFile := filepath.Join(s.rig.cfg.Dir, s.Name+".addr")
	if err := os.Remove(addrFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("rig: %w", err)
	}
	p, err := s.rig.start(Spec{
		Name: s.Name, Path: s.rig.cfg.ChargeOnce, Env: s.rig.env(s.psp.URL), LogFile: s.rig.LogFile(s.Name),
		Args: append([]string{"serve", "--grpc-listen", s.GRPC, "--rest-listen", s.REST, "--admin-listen", s.Admin,
			"--addr-file", addrFile}, s.args...),
	})
	if err != nil {
		return err
	}
	s.Process = p
	err = p.Await(ctx, "its addresses", func(context.Context) (bool, error) {
		text, err := os.ReadFile(addrFile) // written whole or not at all
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		return true, json.Unmarshal(text, &s.Addrs)
	})
	if err != nil {
		return err
	}
	return p.Await(ctx, "/readyz", s.rig.answers(s.URL()+"/readyz"))
}

// answers makes a check that a page answers 200.
func (r *Rig) answers(url string) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return false, err
		}
		resp, err := r.http.Do(req)
		if err != nil {
			return false, nil // not yet: whoever waits has a bound
		}
		_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxPage))
		return resp.StatusCode == http.StatusOK && err == nil, resp.Body.Close()
	}
}
