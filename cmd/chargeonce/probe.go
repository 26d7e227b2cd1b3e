package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// probeCmd is a health check for where there is no shell and no curl, as in this program's own image.
type probeCmd struct {
	URL     string        `arg:"" default:"http://127.0.0.1:8080/readyz" help:"What to get. Of a server: /readyz says whether to send it requests, /healthz whether it lives."`
	Timeout time.Duration `default:"3s" help:"Bounds the whole request."`
}

// maxProbeBody is how much of an answer is read, so that the connection ends well.
const maxProbeBody = 1 << 20

// Run gets the URL, and returns an error unless the answer is a 2xx. It follows no redirect.
func (c probeCmd) Run(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL, nil)
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true}, // a proxy of the environment is not asked either
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, maxProbeBody)); err != nil {
		return fmt.Errorf("probe: %s: %w", c.URL, err)
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("probe: %s: %s", c.URL, resp.Status)
	}
	return nil
}
