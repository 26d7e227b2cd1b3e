package gatewaysim

import (
	"maps"
	"net"
	"net/http"
	"sync"
	"time"
)

// maxTrackedKeys bounds the memory of the counters per key, maxLoggedRequests that of the log of requests.
const (
	maxTrackedKeys    = 1_000_000
	maxLoggedRequests = 20_000
)

// Stats is what was counted since the process began, or since [Sim.ResetStats].
type Stats struct {
	// Requests counts by route ("POST /charges") and by outcome: the status that was sent, or "hung", "dropped", "cut".
	Requests map[string]map[string]int64 `json:"requests"`
	// Keys counts per idempotency key. At most a million keys are tracked; UntrackedKeys counts requests with others.
	Keys          map[string]KeyStats `json:"keys,omitempty"`
	UntrackedKeys int64               `json:"untracked_keys"`
	// Charges counts new charges, AnswersLost the answers that faults kept from callers.
	Charges     int64 `json:"charges"`
	AnswersLost int64 `json:"answers_lost"`
	// GrpcTimeouts counts the requests that had a Grpc-Timeout, LastGrpcTimeout is the newest one. The PSP records it and
	// goes on working past it, as a PSP may.
	GrpcTimeouts    int64  `json:"grpc_timeouts"`
	LastGrpcTimeout string `json:"last_grpc_timeout"`
	// ConnectionsOpened counts the connections that callers opened, OpenConnections are open now.
	ConnectionsOpened int64 `json:"connections_opened"`
	OpenConnections   int64 `json:"open_connections"`
	// InFlight is the requests being handled now, of which Hung hang; MaxInFlight the most there ever were at once.
	InFlight    int64        `json:"in_flight"`
	Hung        int64        `json:"hung"`
	MaxInFlight int64        `json:"max_in_flight"`
	Webhooks    WebhookStats `json:"webhooks"`
	// Rules counts for each rule of the faults in force, since they were set.
	Rules []RuleStats `json:"rules"`
}

// KeyStats counts for one idempotency key.
type KeyStats struct {
	Posts       int64 `json:"posts"` // POST /charges, well-formed
	Charges     int64 `json:"charges"`
	AnswersLost int64 `json:"answers_lost"`
}

// WebhookStats counts events and deliveries.
type WebhookStats struct {
	Events    int64 `json:"events"`
	Dropped   int64 `json:"dropped"`   // events that a fault dropped
	Delivered int64 `json:"delivered"` // deliveries answered 2xx
	Failed    int64 `json:"failed"`    // deliveries answered otherwise, or not
	Extra     int64 `json:"extra"`     // those of both that came beside the schedule
}

// Request is one entry of the log of requests.
type Request struct {
	Received       time.Time `json:"received"`
	Method         string    `json:"method"`
	Path           string    `json:"path"`
	IdempotencyKey string    `json:"idempotency_key,omitempty"`
	GrpcTimeout    string    `json:"grpc_timeout,omitempty"`
	Traceparent    string    `json:"traceparent,omitempty"`
	Outcome        string    `json:"outcome,omitempty"` // empty while it is being handled
	Duration       Duration  `json:"duration,omitempty"`

	route string
}

// recorder counts.
type recorder struct {
	mu       sync.Mutex
	stats    Stats
	keys     map[string]*KeyStats
	requests []*Request // a ring once it is full; next is its oldest entry then
	next     int
}

func newRecorder() *recorder {
	return &recorder{stats: Stats{Requests: map[string]map[string]int64{}}, keys: map[string]*KeyStats{}}
}

func (rec *recorder) begin(route string, r *http.Request) *Request {
	entry := &Request{
		Received: time.Now(), Method: r.Method, Path: r.URL.Path, route: route,
		GrpcTimeout: r.Header.Get("Grpc-Timeout"), Traceparent: r.Header.Get("Traceparent"),
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	s := &rec.stats
	s.InFlight++
	s.MaxInFlight = max(s.MaxInFlight, s.InFlight)
	if entry.GrpcTimeout != "" {
		s.GrpcTimeouts++
		s.LastGrpcTimeout = entry.GrpcTimeout
	}
	if len(rec.requests) < maxLoggedRequests {
		rec.requests = append(rec.requests, entry)
	} else {
		rec.requests[rec.next] = entry
		rec.next = (rec.next + 1) % maxLoggedRequests
	}
	return entry
}

// identify says which key a request is about, once that is known.
func (rec *recorder) identify(entry *Request, key string) {
	if key == "" {
		return
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	entry.IdempotencyKey = key
	if entry.route == routeCharge {
		if k := rec.key(key); k != nil {
			k.Posts++
		}
	}
}

// key returns the counters of key, nil when too many are tracked already.
func (rec *recorder) key(key string) *KeyStats {
	k := rec.keys[key]
	if k == nil {
		if len(rec.keys) >= maxTrackedKeys {
			rec.stats.UntrackedKeys++
			return nil
		}
		k = &KeyStats{}
		rec.keys[key] = k
	}
	return k
}

func (rec *recorder) end(entry *Request, outcome string) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.stats.InFlight--
	entry.Outcome, entry.Duration = outcome, Duration(time.Since(entry.Received))
	byOutcome := rec.stats.Requests[entry.route]
	if byOutcome == nil {
		byOutcome = map[string]int64{}
		rec.stats.Requests[entry.route] = byOutcome
	}
	byOutcome[outcome]++
}

// count changes the counters under the lock.
func (rec *recorder) count(change func(*Stats)) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	change(&rec.stats)
}

func (rec *recorder) charged(key string) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.stats.Charges++
	if k := rec.key(key); k != nil {
		k.Charges++
	}
}

func (rec *recorder) lost(key string) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.stats.AnswersLost++
	if key == "" {
		return
	}
	if k := rec.key(key); k != nil {
		k.AnswersLost++
	}
}

func (rec *recorder) hung(change int64) { rec.count(func(s *Stats) { s.Hung += change }) }

func (rec *recorder) eventMade(dropped bool) {
	rec.count(func(s *Stats) {
		s.Webhooks.Events++
		if dropped {
			s.Webhooks.Dropped++
		}
	})
}

func (rec *recorder) delivered(ok, extra bool) {
	rec.count(func(s *Stats) {
		if ok {
			s.Webhooks.Delivered++
		} else {
			s.Webhooks.Failed++
		}
		if extra {
			s.Webhooks.Extra++
		}
	})
}

// connState is the http.Server's hook.
func (rec *recorder) connState(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		rec.count(func(s *Stats) { s.ConnectionsOpened++; s.OpenConnections++ })
	case http.StateClosed, http.StateHijacked:
		rec.count(func(s *Stats) { s.OpenConnections-- })
	}
}

// Stats returns a copy of the counters.
func (s *Sim) Stats() Stats {
	rules := s.faults.Load().stats()
	rec := s.stats
	rec.mu.Lock()
	defer rec.mu.Unlock()
	out := rec.stats
	out.Rules = rules
	out.Requests = make(map[string]map[string]int64, len(rec.stats.Requests))
	for route, byOutcome := range rec.stats.Requests {
		out.Requests[route] = maps.Clone(byOutcome)
	}
	out.Keys = make(map[string]KeyStats, len(rec.keys))
	for key, k := range rec.keys {
		out.Keys[key] = *k
	}
	return out
}

// ResetStats sets the counters to zero and empties the log of requests. What is a state, not a count, stays: requests in
// flight and open connections.
func (s *Sim) ResetStats() {
	rec := s.stats
	rec.mu.Lock()
	defer rec.mu.Unlock()
	now := rec.stats
	rec.stats = Stats{
		Requests: map[string]map[string]int64{},
		InFlight: now.InFlight, MaxInFlight: now.InFlight, Hung: now.Hung, OpenConnections: now.OpenConnections,
	}
	rec.keys = map[string]*KeyStats{}
	rec.requests, rec.next = nil, 0
}

// Requests returns the newest requests, at most 20,000, in the order in which they were received.
func (s *Sim) Requests() []Request {
	rec := s.stats
	rec.mu.Lock()
	defer rec.mu.Unlock()
	out := make([]Request, 0, len(rec.requests))
	for i := range rec.requests {
		out = append(out, *rec.requests[(rec.next+i)%len(rec.requests)])
	}
	return out
}
