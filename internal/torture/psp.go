package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"chargeonce/internal/rig"
)

// provider is the simulated PSP: its process, its faults and its books. Its faults live in its memory, so they are set again
// whenever it comes back.
type provider struct {
	process
	binary, dir, listen string
	http                *http.Client
	hooks               string // where its events go
	calm                pspFaults

	faultsMu sync.Mutex
	striking map[int]pspFaults // by the fault that set them
	fullAt   int64             // the size at which its file is full; 0: no limit
}

// pspFaults is the body of PUT /admin/faults, as far as it is used here; gateway-sim documents it.
type pspFaults struct {
	Seed     uint64         `json:"seed,omitempty"`
	Latency  string         `json:"latency,omitempty"`
	Rules    []pspRule      `json:"rules,omitempty"`
	Webhooks map[string]any `json:"webhooks,omitempty"`
}

type pspRule struct {
	Fault   string         `json:"fault"`
	Match   map[string]any `json:"match,omitempty"`
	Rate    float64        `json:"rate,omitempty"`
	How     string         `json:"how,omitempty"`
	Status  int            `json:"status,omitempty"`
	Latency string         `json:"latency,omitempty"`
}

// adminTimeout bounds a request to the admin API, ledgerTimeout the reading of a long ledger.
const (
	adminTimeout  = 5 * time.Second
	ledgerTimeout = 2 * time.Minute
)

func newProvider(binary, dir, hooks string, calm pspFaults) (*provider, error) {
	listen, err := freeAddress()
	if err != nil {
		return nil, err
	}
	p := &provider{
		binary: binary, dir: dir, listen: listen, hooks: hooks, calm: calm, striking: map[int]pspFaults{},
		http: &http.Client{Timeout: ledgerTimeout, Transport: &http.Transport{DisableKeepAlives: true}},
	}
	p.process = process{name: "psp", start: p.begin}
	return p, nil
}

func (p *provider) file() string { return filepath.Join(p.dir, "psp.db") }

func (p *provider) begin(ctx context.Context) (*rig.Process, error) {
	p.faultsMu.Lock()
	full := p.fullAt
	p.faultsMu.Unlock()
	proc, err := rig.Start(rig.Spec{
		Name: p.name, Path: p.binary, LogFile: filepath.Join(p.dir, "psp.log"),
		// Sped up by so much, an event that failed is sent again after 25 ms, 1.5 s, 9 s.
		Args: []string{"--listen", p.listen, "--file", p.file(), "--webhook-url", p.hooks, "--webhook-speedup", "200", "--webhook-timeout", "2s",
			"--pending-after", "700ms", "--shutdown-grace", "3s", "--log-level", "warn", "--max-file-size", fmt.Sprint(full)},
		Env: []string{"GATEWAY_SIM_API_KEY=" + rig.PSPKey, "GATEWAY_SIM_WEBHOOK_SECRETS=" + rig.WebhookSecret},
	})
	if err != nil {
		return nil, err
	}
	ready, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err = proc.Await(ready, "/healthz", func(ctx context.Context) (bool, error) {
		return p.do(ctx, http.MethodGet, "/healthz", nil, nil) == nil, nil
	})
	if err == nil {
		err = p.apply(ctx)
	}
	return proc, err
}

// strike adds the faults of one fault of the nemesis, heal takes them away again. A PSP that is away gets them when it is back.
func (p *provider) strike(ctx context.Context, id int, f pspFaults) error {
	p.faultsMu.Lock()
	p.striking[id] = f
	p.faultsMu.Unlock()
	return p.applyIfThere(ctx)
}

func (p *provider) heal(ctx context.Context, id int) error {
	p.faultsMu.Lock()
	delete(p.striking, id)
	p.faultsMu.Unlock()
	return p.applyIfThere(ctx)
}

func (p *provider) applyIfThere(ctx context.Context) error {
	err := p.apply(ctx)
	if err != nil && !p.busy.TryLock() {
		return nil // somebody is ending it, and bringing it back sets the faults
	}
	if err != nil {
		p.busy.Unlock()
	}
	return err
}

// apply sets all faults that strike now, together.
func (p *provider) apply(ctx context.Context) error {
	p.faultsMu.Lock()
	defer p.faultsMu.Unlock()
	all := pspFaults{Latency: p.calm.Latency, Rules: slices.Clone(p.calm.Rules), Webhooks: maps.Clone(p.calm.Webhooks)}
	if all.Webhooks == nil {
		all.Webhooks = map[string]any{}
	}
	for _, id := range slices.Sorted(maps.Keys(p.striking)) {
		f := p.striking[id]
		all.Seed = f.Seed
		if f.Latency != "" {
			all.Latency = f.Latency
		}
		all.Rules = append(all.Rules, f.Rules...)
		maps.Copy(all.Webhooks, f.Webhooks)
	}
	body, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("torture: the PSP's faults: %w", err)
	}
	return p.do(ctx, http.MethodPut, "/admin/faults", body, nil)
}

// fill makes its file full from its next start on, at the size that it has; with false it has room again.
func (p *provider) fill(full bool) error {
	p.faultsMu.Lock()
	defer p.faultsMu.Unlock()
	p.fullAt = 0
	if !full {
		return nil
	}
	info, err := os.Stat(p.file())
	if err != nil {
		return fmt.Errorf("torture: %w", err)
	}
	p.fullAt = info.Size()
	return nil
}

// charge is a charge in the PSP's ledger. Amount is in minor units.
type charge struct {
	ID             string            `json:"id"`
	IdempotencyKey string            `json:"idempotency_key"`
	Amount         int64             `json:"amount"`
	Currency       string            `json:"currency"`
	Status         string            `json:"status"`
	Metadata       map[string]string `json:"metadata"`
	CreatedAt      time.Time         `json:"created_at"`
	UpdatedAt      time.Time         `json:"updated_at"`
}

// ledger reads every charge, in order of creation.
func (p *provider) ledger(ctx context.Context) (out []charge, err error) {
	err = p.do(ctx, http.MethodGet, "/admin/ledger", nil, func(body io.Reader) error {
		for dec := json.NewDecoder(body); ; {
			var c charge
			if err := dec.Decode(&c); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			out = append(out, c)
		}
	})
	return out, err
}

// do makes one request to the admin API; read, if any, gets the body of a 200.
func (p *provider) do(ctx context.Context, method, path string, in []byte, read func(io.Reader) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("torture: PSP: %s %s: %w", method, path, err)
		}
	}()
	if read == nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, adminTimeout)
		defer cancel()
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+p.listen+path, bytes.NewReader(in))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := p.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
		return errors.Join(fmt.Errorf("%s: %s", resp.Status, bytes.TrimSpace(text)), err)
	}
	if read == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	return read(resp.Body)
}
