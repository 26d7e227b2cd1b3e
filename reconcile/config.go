package reconcile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"

	"chargeonce/internal/idempotency"
	"chargeonce/internal/payment"
	"chargeonce/internal/psp"
)

// PSP is what a pass asks of the payment service provider. *psp.Client is the real one; it should be a client of
// reconciliation's own, so that neither takes the other's breaker, budget or slots.
type PSP interface {
	LookUp(ctx context.Context, key string, want psp.Expect) psp.Result
	Cancel(ctx context.Context, key string, want psp.Expect) psp.Result
	Get(ctx context.Context, chargeID string) (psp.Charge, error)
	Statement(ctx context.Context, createdAfter time.Time, cursor string, limit int) (psp.Page, error)
}

// Inbox is the part of the webhook inbox that a pass works on.
type Inbox interface {
	RetryDue(ctx context.Context, limit int) (applied, failed, dead int, err error)
	Backlog(ctx context.Context) (failed, dead, chargedAfterRefusal int, err error)
	Purge(ctx context.Context, olderThan time.Duration, limit int) (int, error)
}

// The shortest retentions and the least overlap that a configuration may have.
const (
	// MinKeyRetention is the shortest time that a refusal is kept for its replay.
	MinKeyRetention = idempotency.MinRetention
	// MinEventRetention is longer than the PSP repeats an event, so that a late repeat still finds the first.
	MinEventRetention = 4 * 24 * time.Hour
)

// Config says how a pass works. DB, PSP, Renderer and Inbox are required; a zero value elsewhere means the default.
type Config struct {
	// DB must have been opened by package mysql.
	DB *sql.DB
	// PSP is asked, and never to charge.
	PSP PSP
	// Renderer makes the answers that finished keys will be replayed with: the server's.
	Renderer payment.Renderer
	// Inbox holds the events.
	Inbox Inbox
	// Logger gets what needs a person, as it is found (default slog.Default()).
	Logger *slog.Logger

	// Grace is how long a key's lease must be over, so that a client who was just told to retry goes first (default 60 s).
	Grace time.Duration
	// AbandonAfter is how old the last attempt must be before a key that the PSP has never seen is abandoned (default 1 h).
	AbandonAfter time.Duration
	// Lease is how long a key is held to settle it (default 30 s).
	Lease time.Duration
	// PendingAfter is how long a charge may be pending before it is asked for (default 5 min).
	PendingAfter time.Duration
	// Overlap is how far before its mark the statement is read again, Quiet how much of its newest end is left alone
	// (defaults 10 min each): webhooks may be late, and clocks differ.
	Overlap, Quiet time.Duration
	// KeyRetention is how long a stored refusal is kept (default 24 h, the least), ChargedKeyRetention a key that charged
	// (default 90 days).
	KeyRetention, ChargedKeyRetention time.Duration
	// PSPKeyRetention is how long the PSP surely remembers an idempotency key (default 90 days). A stuck key that is older and that
	// the PSP does not know is parked: it may have been charged and forgotten.
	PSPKeyRetention time.Duration
	// EventRetention is how long events are kept (default 7 days; 4 at the least).
	EventRetention time.Duration

	// Concurrency is how many keys or charges are worked on at once (default 4).
	Concurrency int
	// Batch is how many rows are read, or deleted, by one statement (default 200).
	Batch int
	// PageSize is how many charges one page of the statement has (default 500; at most 1000).
	PageSize int
	// Rate bounds the calls to the PSP per second (default 50).
	Rate float64

	// DryRun changes nothing: it reads, asks the PSP, and reports what a pass would do.
	DryRun bool

	// Progress, if set, is told how far a pass is. It is called from several goroutines, and must be fast.
	Progress func(Progress)
}

func (c Config) withDefaults() Config {
	setDefault(&c.Grace, 60*time.Second)
	setDefault(&c.AbandonAfter, time.Hour)
	setDefault(&c.Lease, 30*time.Second)
	setDefault(&c.PendingAfter, 5*time.Minute)
	setDefault(&c.Overlap, 10*time.Minute)
	setDefault(&c.Quiet, 10*time.Minute)
	setDefault(&c.KeyRetention, MinKeyRetention)
	setDefault(&c.ChargedKeyRetention, 90*24*time.Hour)
	setDefault(&c.EventRetention, 7*24*time.Hour)
	setDefault(&c.Concurrency, 4)
	setDefault(&c.Batch, 200)
	setDefault(&c.PageSize, 500)
	setDefault(&c.Rate, 50)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// minLease is the shortest lease within which the PSP can be asked and the answer be written.
const minLease = time.Second

func (c Config) validate() error {
	switch {
	case c.DB == nil || c.PSP == nil || c.Renderer == nil || c.Inbox == nil:
		return errors.New("reconcile: no database, PSP, renderer or inbox")
	case c.Lease < minLease:
		return fmt.Errorf("reconcile: a lease of %s is too short to ask the PSP and record the answer (least: %s)", c.Lease, minLease)
	case c.KeyRetention < MinKeyRetention:
		return fmt.Errorf("reconcile: a key retention of %s is too short: clients may retry for %s", c.KeyRetention, MinKeyRetention)
	case c.ChargedKeyRetention < c.KeyRetention:
		return fmt.Errorf("reconcile: keys that charged must be kept at least as long as refusals (%s), not %s", c.KeyRetention, c.ChargedKeyRetention)
	case c.EventRetention < MinEventRetention:
		return fmt.Errorf("reconcile: an event retention of %s is too short: the PSP repeats events for days (least: %s)", c.EventRetention, MinEventRetention)
	case c.Concurrency < 0, c.Batch < 0, c.PageSize < 0, c.PageSize > 1000, c.Rate < 0:
		return errors.New("reconcile: concurrency, batch, page size or rate is out of range")
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"grace", c.Grace}, {"abandon-after", c.AbandonAfter}, {"pending-after", c.PendingAfter},
		{"overlap", c.Overlap}, {"quiet", c.Quiet},
	} {
		if d.value < 0 {
			return fmt.Errorf("reconcile: %s is negative", d.name)
		}
	}
	return nil
}

// Reconciler runs passes, one at a time: a second one waits.
type Reconciler struct {
	running sync.Mutex

	cfg     Config
	gateway *gateway
	flow    *payment.Flow
	log     *slog.Logger
	metrics metrics
	tracer  trace.Tracer
}

// New checks the configuration, applies the defaults and returns the reconciler.
func New(c Config) (*Reconciler, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	m, err := newMetrics(otel.Meter(scope))
	if err != nil {
		return nil, fmt.Errorf("reconcile: metrics: %w", err)
	}
	g := &gateway{psp: c.PSP, limiter: rate.NewLimiter(rate.Limit(c.Rate), 1)}
	// The last part of a key's lease is for writing what was learnt in the first.
	timing := payment.Timing{StoreTimeout: min(3*time.Second, c.Lease/4), LeaseMargin: min(3*time.Second, c.Lease/4), PSPKeyRetention: c.PSPKeyRetention}
	return &Reconciler{
		cfg:     c,
		gateway: g,
		flow:    payment.NewFlow(c.DB, g, c.Renderer, timing, c.Logger),
		log:     c.Logger,
		metrics: m,
		tracer:  otel.Tracer(scope),
	}, nil
}
