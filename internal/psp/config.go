package psp

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"chargeonce/internal/telemetry"
)

// Config says where the PSP is and how much a call may cost. The zero value of every field but BaseURL and APIKey means
// its default (design.md §5).
type Config struct {
	// Name tells this client's metrics and logs from those of another one in the same process. Default "payments".
	Name string
	// BaseURL is the PSP's address, such as https://psp.example/v1; paths are appended to it.
	BaseURL string
	// APIKey is sent as a bearer token.
	APIKey telemetry.Secret
	// TLS gives the configuration of each new connection to an https BaseURL on that host, with a client certificate if the PSP
	// wants one; nil means the system's roots and no certificate. It is asked each time, so that what was renewed is used without
	// a restart.
	TLS func(host string) *tls.Config
	// Logger gets retries, give-ups and changes of the breaker's state. Default slog.Default().
	Logger *slog.Logger

	// AttemptTimeout bounds one attempt; the caller's deadline may be shorter. Default 2 s.
	AttemptTimeout time.Duration
	// MinAttempt is the time below which an attempt is not worth starting. Default 20 ms.
	MinAttempt time.Duration
	// MaxCall bounds a call whose context has no deadline. Default 30 s.
	MaxCall time.Duration
	// DialTimeout bounds the name look-up and TCP connect, and once more the TLS handshake. Default three quarters of
	// AttemptTimeout, so that a host that is down is told from one that is slow.
	DialTimeout time.Duration
	// IdleConnTimeout closes a pooled connection that was not used for so long. Keep it below the PSP's own: a connection
	// that the PSP closes while a POST is being written on it leaves that attempt unknown. Default 30 s.
	IdleConnTimeout time.Duration

	// MaxAttempts is how many times one operation is sent in all; 1 means no retry. Default 4.
	MaxAttempts int
	// BackoffBase and BackoffCap shape the wait before retry n (from 0): uniform in [0, min(BackoffCap, BackoffBase·2ⁿ)].
	// Default 100 ms and 2 s.
	BackoffBase, BackoffCap time.Duration

	// BudgetTokens is the size of the retry budget, which starts full; a retry takes one. Default 10.
	BudgetTokens int
	// BudgetTenthsPerSuccess is what a success gives back, in tenths of a token. Default 1.
	BudgetTenthsPerSuccess int
	// BudgetOff lets every retry through. For experiments.
	BudgetOff bool

	// BreakerFailuresInRow opens the breaker. Default 5.
	BreakerFailuresInRow int
	// BreakerMinCalls is how many calls must have ended within BreakerWindow for their failure rate to count; half of them
	// failed opens the breaker. Default 20.
	BreakerMinCalls int
	// BreakerWindow is the rolling window of both rules, kept in ten buckets. Default 10 s.
	BreakerWindow time.Duration
	// OpenFor is how long an open breaker refuses before it lets a probe through. ± 10 % is drawn once per client, so that
	// the processes of one service do not probe in step. Default 1 s.
	OpenFor time.Duration
	// SlowAfter is the mark past which a call under way counts as failed for the breaker; its answer is still used. It must
	// lie above the PSP's measured p99. Default half of AttemptTimeout.
	SlowAfter time.Duration
	// BreakerOff lets every call through. For experiments.
	BreakerOff bool

	// Slots is how many calls may be under way at once. Default 64.
	Slots int
	// SlotWait is how long a call may wait for a slot. Default 50 ms.
	SlotWait time.Duration
}

// Validate names the first field that is wrong, in the form "psp: BaseURL: …".
func (c Config) Validate() error {
	u, err := url.Parse(c.BaseURL)
	switch {
	case err != nil:
		return errors.New("psp: BaseURL: does not parse") // The parser's own error repeats the URL, and any password in it.
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return errors.New("psp: BaseURL: want an absolute http or https URL")
	case u.User != nil, u.RawQuery != "", u.Fragment != "":
		return errors.New("psp: BaseURL: want no user, query or fragment")
	case c.APIKey == "":
		return errors.New("psp: APIKey: is empty")
	case !isFieldValue(c.APIKey.Reveal()):
		return errors.New("psp: APIKey: want printable ASCII without spaces")
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"AttemptTimeout", c.AttemptTimeout}, {"MinAttempt", c.MinAttempt}, {"MaxCall", c.MaxCall},
		{"DialTimeout", c.DialTimeout}, {"IdleConnTimeout", c.IdleConnTimeout}, {"BackoffBase", c.BackoffBase},
		{"BackoffCap", c.BackoffCap}, {"BreakerWindow", c.BreakerWindow}, {"OpenFor", c.OpenFor},
		{"SlowAfter", c.SlowAfter}, {"SlotWait", c.SlotWait},
	} {
		if d.value < 0 {
			return fmt.Errorf("psp: %s: %v is negative", d.name, d.value)
		}
	}
	for _, n := range []struct {
		name       string
		value, max int
	}{
		{"MaxAttempts", c.MaxAttempts, 100}, {"BudgetTokens", c.BudgetTokens, 1_000_000},
		{"BudgetTenthsPerSuccess", c.BudgetTenthsPerSuccess, 1_000_000},
		{"BreakerFailuresInRow", c.BreakerFailuresInRow, 1_000_000}, {"BreakerMinCalls", c.BreakerMinCalls, 1_000_000},
		{"Slots", c.Slots, 100_000},
	} {
		if n.value < 0 || n.value > n.max {
			return fmt.Errorf("psp: %s: %d is not within 0 and %d", n.name, n.value, n.max)
		}
	}
	d := c.withDefaults()
	if d.SlowAfter > d.AttemptTimeout {
		return fmt.Errorf("psp: SlowAfter: %v is longer than AttemptTimeout, %v: no call would reach it", d.SlowAfter, d.AttemptTimeout)
	}
	if d.MinAttempt > d.AttemptTimeout {
		return fmt.Errorf("psp: MinAttempt: %v is longer than AttemptTimeout, %v", d.MinAttempt, d.AttemptTimeout)
	}
	if d.BackoffBase > d.BackoffCap {
		return fmt.Errorf("psp: BackoffBase: %v is longer than BackoffCap, %v", d.BackoffBase, d.BackoffCap)
	}
	if d.BreakerWindow < breakerBuckets {
		return fmt.Errorf("psp: BreakerWindow: %v is too short to be cut into %d", d.BreakerWindow, breakerBuckets)
	}
	return nil
}

// withDefaults returns c with every zero field set to its default.
func (c Config) withDefaults() Config {
	setDefault(&c.Name, "payments")
	setDefault(&c.AttemptTimeout, 2*time.Second)
	setDefault(&c.MinAttempt, 20*time.Millisecond)
	setDefault(&c.MaxCall, 30*time.Second)
	setDefault(&c.DialTimeout, c.AttemptTimeout*3/4)
	setDefault(&c.IdleConnTimeout, 30*time.Second)
	setDefault(&c.MaxAttempts, 4)
	setDefault(&c.BackoffBase, 100*time.Millisecond)
	setDefault(&c.BackoffCap, 2*time.Second)
	setDefault(&c.BudgetTokens, 10)
	setDefault(&c.BudgetTenthsPerSuccess, 1)
	setDefault(&c.BreakerFailuresInRow, 5)
	setDefault(&c.BreakerMinCalls, 20)
	setDefault(&c.BreakerWindow, 10*time.Second)
	setDefault(&c.OpenFor, time.Second)
	setDefault(&c.SlowAfter, c.AttemptTimeout/2)
	setDefault(&c.Slots, 64)
	setDefault(&c.SlotWait, 50*time.Millisecond)
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
