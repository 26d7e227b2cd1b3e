package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/internal/rig"
)

const (
	adminTimeout = 10 * time.Second
	// maxAdminPage bounds what is read of an admin page.
	maxAdminPage = 64 << 20
)

// provider is the simulated PSP by the whole of its admin API; sim is the part of it that the rig knows.
type provider struct {
	sim  *rig.PSP
	http *http.Client
}

func newProvider(sim *rig.PSP) *provider {
	return &provider{sim: sim, http: &http.Client{Timeout: adminTimeout, Transport: &http.Transport{DisableKeepAlives: true}}}
}

// setFaults replaces the faults. Their windows count from now on.
func (p *provider) setFaults(ctx context.Context, f gatewaysim.Faults) error {
	return p.do(ctx, http.MethodPut, "/admin/faults", f, nil)
}

// fresh sets the faults and the counters to zero.
func (p *provider) fresh(ctx context.Context, f gatewaysim.Faults) error {
	if err := p.do(ctx, http.MethodDelete, "/admin/stats", nil, nil); err != nil {
		return err
	}
	return p.setFaults(ctx, f)
}

// stats reads the counters, those per key among them.
func (p *provider) stats(ctx context.Context) (gatewaysim.Stats, error) {
	var out gatewaysim.Stats
	return out, p.do(ctx, http.MethodGet, "/admin/stats", nil, &out)
}

// settled reads the counters once nothing is under way at the PSP any more.
func (p *provider) settled(ctx context.Context) (out gatewaysim.Stats, err error) {
	err = until(ctx, "the PSP to be idle", func() (bool, error) {
		out, err = p.stats(ctx)
		return out.InFlight == 0, err
	})
	return out, err
}

// firstPost looks in the log for the first POST /charges under a key; false if there is none.
func (p *provider) firstPost(ctx context.Context, key string) (gatewaysim.Request, bool, error) {
	var page struct {
		Requests []gatewaysim.Request `json:"requests"`
	}
	if err := p.do(ctx, http.MethodGet, "/admin/requests", nil, &page); err != nil {
		return gatewaysim.Request{}, false, err
	}
	for _, r := range page.Requests {
		if r.Method == http.MethodPost && r.Path == chargesPath && r.IdempotencyKey == key {
			return r, true, nil
		}
	}
	return gatewaysim.Request{}, false, nil
}

// void cancels a charge as the bank behind a PSP may, which makes an event.
func (p *provider) void(ctx context.Context, chargeID string) error {
	return p.do(ctx, http.MethodPost, "/admin/charges/"+chargeID+"/cancel", struct{}{}, nil)
}

const (
	chargesPath = "/charges"
	chargeRoute = http.MethodPost + " " + chargesPath
	outcomeHung = "hung"
)

// onCharges picks the requests that charge, and no others.
func onCharges() gatewaysim.Match {
	return gatewaysim.Match{Method: http.MethodPost, Path: chargesPath, Exact: true}
}

// charged counts the POST /charges, whatever came of them.
func charged(s gatewaysim.Stats) (n int64) {
	for _, count := range s.Requests[chargeRoute] {
		n += count
	}
	return n
}

// do makes one request to the admin API and reads its answer into out, if any.
func (p *provider) do(ctx context.Context, method, path string, in, out any) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("PSP: %s %s: %w", method, path, err)
		}
	}()
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, p.sim.URL+path, body)
	if err != nil {
		return err
	}
	resp, err := p.http.Do(req)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAdminPage))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", resp.Status, bytes.TrimSpace(text))
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(text, out)
}
