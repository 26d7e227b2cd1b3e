package gatewaysim

import (
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// faultSet is a [Faults] in force: since when, what it has counted, and its dice.
type faultSet struct {
	spec    Faults
	began   time.Time
	cleared chan struct{} // closed when another set takes its place; cuts the hung requests

	mu       sync.Mutex
	rules    []ruleState
	latency  *rand.Rand
	webhooks *rand.Rand
}

// ruleState is what a rule has counted. Each rule has dice of its own, so that adding one changes no other's throws.
type ruleState struct {
	random        *rand.Rand
	matched, hits int
}

func newFaultSet(spec Faults) *faultSet {
	dice := func(n int) *rand.Rand { return rand.New(rand.NewPCG(spec.Seed, uint64(n))) }
	fs := &faultSet{
		spec: spec, began: time.Now(), cleared: make(chan struct{}),
		rules: make([]ruleState, len(spec.Rules)), latency: dice(-1), webhooks: dice(-2),
	}
	for i := range fs.rules {
		fs.rules[i].random = dice(i)
	}
	return fs
}

// subject is what a [Match] looks at.
type subject struct {
	method, path, key, orderID, paymentMethod string
}

// plan is what the faults have in store for one request.
type plan struct {
	latency time.Duration
	before  *Rule // hang, error or drop_connection
	lose    *Rule
	wrong   []Fault
	cleared <-chan struct{}
}

// planRequest throws the dice for one request.
func (fs *faultSet) planRequest(s subject, base Latency) plan {
	p := plan{cleared: fs.cleared}
	elapsed := time.Since(fs.began)
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if s.method == "POST" && s.path == "/charges" {
		if !fs.spec.Latency.IsZero() {
			base = fs.spec.Latency
		}
		p.latency = base.draw(fs.latency)
	}
	for i := range fs.spec.Rules {
		rule, state := &fs.spec.Rules[i], &fs.rules[i]
		if !rule.Window.holds(elapsed) || !rule.Match.matches(s) || !state.strikes(rule) {
			continue
		}
		switch rule.Fault {
		case Hang, ErrorAnswer, DropConnection:
			p.before = rule
			return p
		case SlowAnswer:
			p.latency += rule.Latency.draw(state.random)
		case LoseAnswer:
			if p.lose == nil {
				p.lose = rule
			}
		case WrongAmount, WrongCurrency, WrongKey:
			p.wrong = append(p.wrong, rule.Fault)
		}
	}
	return p
}

// strikes counts a matching request and throws its dice. The throw is made for every one of them, so that which requests
// are struck depends on the seed and their order alone.
func (s *ruleState) strikes(r *Rule) bool {
	s.matched++
	hit := r.Rate == nil || s.random.Float64() < *r.Rate
	if !hit || s.matched <= r.Skip || (r.Count > 0 && s.hits >= r.Count) {
		return false
	}
	s.hits++
	return true
}

func (w Window) holds(elapsed time.Duration) bool {
	after, length := time.Duration(w.After), time.Duration(w.For)
	return elapsed >= after && (length == 0 || elapsed < after+length)
}

func (m Match) matches(s subject) bool {
	return (m.Method == "" || m.Method == s.method) &&
		(m.Path == "" || m.Path == s.path || (!m.Exact && strings.HasPrefix(s.path, m.Path))) &&
		(m.IdempotencyKey == "" || m.IdempotencyKey == s.key) &&
		(m.OrderID == "" || m.OrderID == s.orderID) &&
		(m.PaymentMethod == "" || m.PaymentMethod == s.paymentMethod)
}

// webhookPlan is what the faults have in store for a new event.
type webhookPlan struct {
	drop, early bool
	first       time.Time
	extra       []time.Time
}

func (fs *faultSet) planEvent(now time.Time) webhookPlan {
	w := fs.spec.Webhooks
	p := webhookPlan{first: now}
	if !w.Window.holds(time.Since(fs.began)) {
		return p
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if p.drop = fs.webhooks.Float64() < w.DropRate; p.drop {
		return p
	}
	p.early = w.Early && !w.Off
	at := func() time.Time {
		return now.Add(time.Duration(w.Delay) + time.Duration(fs.webhooks.Int64N(int64(w.Shuffle)+1)))
	}
	p.first = at()
	for range w.Repeat {
		p.extra = append(p.extra, at())
	}
	return p
}

// planDelivery says how a delivery that starts now is to be signed: by which secret alone (nil: all), or wrongly.
func (fs *faultSet) planDelivery() (signWith *int, badSignature bool) {
	w := fs.spec.Webhooks
	if !w.Window.holds(time.Since(fs.began)) {
		return nil, false
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return w.SignWith, fs.webhooks.Float64() < w.BadSignatureRate
}

// webhooksHeld reports whether deliveries are held back now, and how long it is until that changes by itself (0: never).
func (fs *faultSet) webhooksHeld() (held bool, change time.Duration) {
	w := fs.spec.Webhooks
	if !w.Off {
		return false, 0
	}
	elapsed := time.Since(fs.began)
	switch {
	case elapsed < time.Duration(w.After):
		return false, time.Duration(w.After) - elapsed
	case w.Window.holds(elapsed):
		return true, max(0, time.Duration(w.After+w.For)-elapsed)
	}
	return false, 0
}

// RuleStats is what one rule of the faults in force has counted.
type RuleStats struct {
	Fault   Fault `json:"fault"`
	Matched int   `json:"matched"`
	Hits    int   `json:"hits"`
}

func (fs *faultSet) stats() []RuleStats {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	stats := make([]RuleStats, len(fs.rules))
	for i, state := range fs.rules {
		stats[i] = RuleStats{Fault: fs.spec.Rules[i].Fault, Matched: state.matched, Hits: state.hits}
	}
	return stats
}
