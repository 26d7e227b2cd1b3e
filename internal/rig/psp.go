package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"time"
)

// maxPage bounds what is read of a page.
const maxPage = 64 << 20

// PSP is the simulated payment service provider: its address and its admin API, which needs no credential.
type PSP struct {
	// URL has no slash at its end.
	URL  string
	http *http.Client
}

// NewPSP speaks to a simulator that runs already.
func NewPSP(url string) *PSP { return &PSP{URL: url, http: newHTTPClient()} }

// SimProcess is a simulator that the rig started. Its file survives a kill. Restart replaces its Process, so it is for one
// goroutine at a time; the PSP in it is for many.
type SimProcess struct {
	*Process
	*PSP

	rig    *Rig
	listen string
	args   []string
}

// StartPSP starts the simulator on a free port and waits until it answers. args are further flags of gateway-sim.
func (r *Rig) StartPSP(ctx context.Context, args ...string) (*SimProcess, error) {
	s := &SimProcess{PSP: NewPSP(""), rig: r, listen: "127.0.0.1:0", args: args}
	return s, s.start(ctx)
}

// Restart starts the simulator again, after it has ended, on the address and with the file that it had.
func (s *SimProcess) Restart(ctx context.Context) error {
	select {
	case <-s.Done():
		return s.start(ctx)
	default:
		return errors.New("rig: the PSP has not ended")
	}
}

// listening is the line in which gateway-sim logs where it listens.
var listening = regexp.MustCompile(`msg="gateway-sim is listening" address=(\S+)`)

func (s *SimProcess) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.rig.cfg.Patience)
	defer cancel()
	p, err := s.rig.start(Spec{
		Name: "psp", Path: s.rig.cfg.GatewaySim, LogFile: s.rig.LogFile("psp"),
		Args: append([]string{"--listen", s.listen, "--file", filepath.Join(s.rig.cfg.Dir, "psp.db")}, s.args...),
		Env:  []string{"GATEWAY_SIM_API_KEY=" + PSPKey, "GATEWAY_SIM_WEBHOOK_SECRETS=" + WebhookSecret},
	})
	if err != nil {
		return err
	}
	s.Process = p
	err = p.Await(ctx, "its address", func(context.Context) (bool, error) {
		text, err := p.Log(p.logged)
		if err != nil {
			return false, err
		}
		found := listening.FindSubmatch(text)
		if found == nil {
			return false, nil
		}
		s.listen = string(found[1])
		s.URL = "http://" + s.listen
		return true, nil
	})
	if err != nil {
		return err
	}
	return p.Await(ctx, "/healthz", s.rig.answers(s.URL+"/healthz"))
}

// Faults is what the simulator is to do wrong; see its own documentation for what the fields mean. Only what the rig's users
// need is here.
type Faults struct {
	Rules    []Rule         `json:"rules,omitempty"`
	Webhooks *WebhookFaults `json:"webhooks,omitempty"`
}

// Rule is one fault and the requests that it strikes.
type Rule struct {
	Fault string `json:"fault"`
	Match Match  `json:"match"`
	// Count is how often it strikes; 0: always.
	Count int `json:"count,omitempty"`
	// How is for "lose_answer", Latency ("fixed 300ms") for "latency", Status for "error".
	How     string `json:"how,omitempty"`
	Latency string `json:"latency,omitempty"`
	Status  int    `json:"status,omitempty"`
}

// Match picks requests by the order that they pay.
type Match struct {
	OrderID string `json:"order_id,omitempty"`
}

// WebhookFaults is what goes wrong with deliveries.
type WebhookFaults struct {
	// Early delivers a charge's event, and waits for the answer, before the charge itself is answered.
	Early bool `json:"early,omitempty"`
	// DropRate is the share of the events, 0 to 1, that are never delivered.
	DropRate float64 `json:"drop_rate,omitempty"`
}

// SetFaults replaces the faults. Requests that hang because of earlier ones are cut.
func (p *PSP) SetFaults(ctx context.Context, f Faults) error {
	return p.do(ctx, http.MethodPut, "/admin/faults", f, nil)
}

// ClearFaults ends all faults.
func (p *PSP) ClearFaults(ctx context.Context) error {
	return p.do(ctx, http.MethodDelete, "/admin/faults", nil, nil)
}

// SetWebhookURL says where events go.
func (p *PSP) SetWebhookURL(ctx context.Context, url string) error {
	return p.do(ctx, http.MethodPut, "/admin/webhooks", map[string]string{"url": url}, nil)
}

// Charge is a charge in the PSP's ledger. Amount is in minor units.
type Charge struct {
	ID             string            `json:"id"`
	IdempotencyKey string            `json:"idempotency_key"`
	Amount         int64             `json:"amount"`
	Currency       string            `json:"currency"`
	Status         string            `json:"status"`
	Metadata       map[string]string `json:"metadata"`
	CreatedAt      time.Time         `json:"created_at"`
}

// Charges reads the ledger: every charge, in order of creation.
func (p *PSP) Charges(ctx context.Context) ([]Charge, error) {
	var lines []byte
	if err := p.do(ctx, http.MethodGet, "/admin/ledger", nil, func(body []byte) error {
		lines = body
		return nil
	}); err != nil {
		return nil, err
	}
	var out []Charge
	for dec := json.NewDecoder(bytes.NewReader(lines)); ; {
		var c Charge
		err := dec.Decode(&c)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("rig: the PSP's ledger: %w", err)
		}
		out = append(out, c)
	}
}

// ChargesOf reads the charges that pay one order.
func (p *PSP) ChargesOf(ctx context.Context, orderID string) ([]Charge, error) {
	all, err := p.Charges(ctx)
	if err != nil {
		return nil, err
	}
	var out []Charge
	for _, c := range all {
		if c.Metadata["order_id"] == orderID {
			out = append(out, c)
		}
	}
	return out, nil
}

// Stats are the counters of the simulator that the rig's users need.
type Stats struct {
	// InFlight is the requests that it works on now, of which Hung hang.
	InFlight int64 `json:"in_flight"`
	Hung     int64 `json:"hung"`
	Charges  int64 `json:"charges"`
}

// Stats reads the counters.
func (p *PSP) Stats(ctx context.Context) (Stats, error) {
	var out Stats
	err := p.do(ctx, http.MethodGet, "/admin/stats?keys=none", nil, func(body []byte) error { return json.Unmarshal(body, &out) })
	return out, err
}

// do makes one request to the admin API; read, if any, gets the body of a 200.
func (p *PSP) do(ctx context.Context, method, path string, in any, read func([]byte) error) error {
	name := "rig: PSP: " + method + " " + path
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, p.URL+path, body)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := p.http.Do(req)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxPage))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", name, resp.Status, bytes.TrimSpace(text))
	}
	if read == nil {
		return nil
	}
	if err := read(text); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
