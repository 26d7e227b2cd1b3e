package lab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"chargeonce/api/payments/v1/client"
	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/internal/rig"
)

// fleet is servers that get killed, and the load balancer before them: it sends a request to the living server with the fewest
// under way, once, and knows which requests ended with their server.
type fleet struct {
	servers []*member
	site    *site

	mu     sync.Mutex
	begun  int
	kills  int
	cut    map[client.Key]bool // of the requests that were cut off by a kill
	killed int                 // those of them whose key was then processing: cut off before their finish
}

// member is one server of a fleet. Its fields are the fleet's lock's, but for at and pool.
type member struct {
	at       *rig.Server
	pool     *http.Transport
	up       bool
	life     int // grows with every kill
	underWay int
}

var errNoServer = errors.New("no server is up")

func (s *site) newFleet(ctx context.Context, names ...string) (*fleet, error) {
	f := &fleet{site: s, cut: map[client.Key]bool{}}
	for _, name := range names {
		// The waits are short, so that the leases of what is killed are over soon.
		at, err := s.rig.StartServer(ctx, name, s.psp.sim, "--finish-timeout", "1s", "--lease-margin", "500ms")
		if err != nil {
			return nil, err
		}
		f.servers = append(f.servers, &member{at: at, up: true, pool: &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute}})
	}
	return f, nil
}

// RoundTrip implements http.RoundTripper.
func (f *fleet) RoundTrip(req *http.Request) (*http.Response, error) {
	m, life, err := f.pick()
	if err != nil {
		return nil, err
	}
	out := req.Clone(req.Context())
	out.URL.Host, out.Host = m.at.REST, ""
	resp, err := m.pool.RoundTrip(out)
	f.mu.Lock()
	defer f.mu.Unlock()
	m.underWay--
	if err != nil && m.life != life {
		f.cut[client.Key(strings.Trim(req.Header.Get("Idempotency-Key"), `"`))] = true
	}
	return resp, err
}

func (f *fleet) pick() (*member, int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begun++
	var best *member
	for _, m := range f.servers {
		if m.up && (best == nil || m.underWay < best.underWay) {
			best = m
		}
	}
	if best == nil {
		return nil, 0, errNoServer
	}
	best.underWay++
	return best, best.life, nil
}

// killNowAndThen kills a server, and starts it again, whenever a smaller share than that was killed before its finish of the
// requests that have begun. It goes on until ctx ends; then every server is up.
func (f *fleet) killNowAndThen(ctx context.Context, share float64, atOnce int) error {
	for next := 0; ; next++ {
		m := f.servers[next%len(f.servers)]
		err := until(ctx, "requests to kill", func() (bool, error) {
			if !f.due(m, share, atOnce) {
				return false, nil
			}
			// Not before the charges are under way: a request that has just come has left nothing open.
			stats, err := f.site.psp.totals(ctx)
			return stats.InFlight >= int64(atOnce/2), err
		})
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if err := f.kill(m); err != nil {
			return err
		}
		end := context.WithoutCancel(ctx) // bounded by the rig's patience, and by the pool's time-outs
		if err := f.restart(end, m); err != nil {
			return err
		}
		if err := f.recount(end); err != nil {
			return err
		}
	}
}

// due reports whether it is time to kill m: too few were killed so far, and m has its part of the requests under way.
func (f *fleet) due(m *member, share float64, atOnce int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return float64(f.killed) < share*float64(f.begun) && m.underWay >= atOnce/len(f.servers)-1
}

// recount counts the requests that were killed before their finish. Nobody sends them again meanwhile.
func (f *fleet) recount(ctx context.Context) error {
	open, err := f.site.openKeys(ctx)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.killed = 0
	for key := range f.cut {
		if open[key] {
			f.killed++
		}
	}
	return nil
}

func (f *fleet) kill(m *member) error {
	f.mu.Lock()
	m.up = false
	m.life++
	f.kills++
	f.mu.Unlock()
	if err := m.at.Kill(); err != nil {
		return fmt.Errorf("kill %s: %w", m.at.Name, err)
	}
	m.pool.CloseIdleConnections()
	return nil
}

func (f *fleet) restart(ctx context.Context, m *member) error {
	if err := m.at.Restart(ctx); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	m.up = true
	return nil
}

// totals reads the PSP's counters without those per key.
func (p *provider) totals(ctx context.Context) (gatewaysim.Stats, error) {
	var out gatewaysim.Stats
	return out, p.do(ctx, http.MethodGet, "/admin/stats?keys=none", nil, &out)
}
