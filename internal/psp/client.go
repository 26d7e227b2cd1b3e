package psp

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// scope names this package's instruments and spans.
const scope = "chargeonce/psp"

// Client calls one PSP. It is safe for concurrent use. Make one by [New] and Close it.
type Client struct {
	cfg       Config
	base      *url.URL
	transport http.RoundTripper
	jitter    func(ceiling time.Duration) time.Duration // uniform in [0, ceiling]

	budget   *budget
	breaker  *breaker
	bulkhead *bulkhead
	observe  *observer
}

// parts is what a Client takes from its surroundings; tests put their own.
type parts struct {
	transport   http.RoundTripper
	meter       metric.Meter
	tracer      trace.Tracer
	jitter      func(ceiling time.Duration) time.Duration
	openForDraw float64 // in [0, 1)
}

// New makes a client. It connects to nothing yet; see [Client.Warm]. The error is [Config.Validate]'s, or says that an
// instrument could not be made.
func New(cfg Config) (*Client, error) {
	return newClient(cfg, parts{
		transport:   newTransport(cfg.withDefaults()),
		meter:       otel.Meter(scope),
		tracer:      otel.Tracer(scope),
		jitter:      func(ceiling time.Duration) time.Duration { return rand.N(ceiling + 1) },
		openForDraw: rand.Float64(),
	})
}

func newClient(cfg Config, p parts) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	base, err := url.Parse(cfg.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("psp: BaseURL: %w", err)
	}
	c := &Client{
		cfg:       cfg,
		base:      base,
		transport: p.transport,
		jitter:    p.jitter,
		budget:    newBudget(cfg),
		breaker:   newBreaker(cfg, p.openForDraw),
		bulkhead:  newBulkhead(cfg),
	}
	if c.observe, err = newObserver(p.meter, p.tracer, c); err != nil {
		return nil, fmt.Errorf("psp: instruments: %w", err)
	}
	return c, nil
}

// OpenFor is how long this client's breaker stays open: [Config.OpenFor] with the jitter that was drawn at start.
func (c *Client) OpenFor() time.Duration { return c.breaker.openFor }

// Close closes the idle connections and takes the gauges down. Calls under way go on; the caller waits for its own.
func (c *Client) Close() {
	if idle, ok := c.transport.(interface{ CloseIdleConnections() }); ok {
		idle.CloseIdleConnections()
	}
	if err := c.observe.close(); err != nil {
		c.cfg.Logger.Warn("psp gauges not taken down", slog.Any("error", err))
	}
}
