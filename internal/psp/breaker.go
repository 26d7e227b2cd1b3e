package psp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"
)

// breakerBuckets is how finely the rolling window forgets.
const breakerBuckets = 10

// minRetryAfter keeps a refused caller from being told to come back at once.
const minRetryAfter = 10 * time.Millisecond

// effect is what a call tells the breaker. The zero value is neutral: what is on no rule neither opens nor closes it.
type effect int

const (
	// neutral: the caller left, 408, 409, 429, the bulkhead was full, or an answer that speaks of this request or of the way
	// to the PSP (400, 401, 403, 404, a page that is not the PSP's) rather than of the PSP's health.
	neutral effect = iota
	// success: the PSP answered as documented; a decline is one.
	success
	// failure: time-out, connection error, 5xx, or past the slow mark.
	failure
)

var (
	errBreakerOpen = errors.New("breaker open")
	errNeutral     = errors.New("neutral")
	errFailure     = errors.New("failure")
)

// breaker refuses calls to a PSP that fails, and lets one probe through now and then. It is gobreaker's two-step form, so
// that a slow call can be reported while it runs.
type breaker struct {
	off       bool
	slowAfter time.Duration
	openFor   time.Duration
	log       *slog.Logger
	two       *gobreaker.TwoStepCircuitBreaker[struct{}]

	// gobreaker has no getter for the end of its open time, and its State moves on to half-open when asked.
	mu      sync.Mutex
	state   gobreaker.State
	changed time.Time
}

// newBreaker draws the open time once: openFor ± 10 %, by jitter in [0, 1).
func newBreaker(c Config, jitter float64) *breaker {
	b := &breaker{
		off:       c.BreakerOff,
		slowAfter: c.SlowAfter,
		openFor:   time.Duration(float64(c.OpenFor) * (0.9 + 0.2*jitter)),
		log:       c.Logger,
	}
	b.two = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:         c.Name,
		MaxRequests:  1,
		Interval:     c.BreakerWindow,
		BucketPeriod: c.BreakerWindow / breakerBuckets,
		Timeout:      b.openFor,
		ReadyToTrip: func(n gobreaker.Counts) bool {
			// Requests also counts the calls under way and the neutral ones: the rate is over those that ended.
			ended := int(n.TotalSuccesses + n.TotalFailures)
			return int(n.ConsecutiveFailures) >= c.BreakerFailuresInRow ||
				ended >= c.BreakerMinCalls && int(n.TotalFailures)*2 >= ended
		},
		IsSuccessful:  func(err error) bool { return err == nil },
		IsExcluded:    func(err error) bool { return errors.Is(err, errNeutral) },
		OnStateChange: b.onChange,
	})
	return b
}

// onChange runs under gobreaker's lock, so it must not ask it anything.
func (b *breaker) onChange(name string, from, to gobreaker.State) {
	b.mu.Lock()
	b.state, b.changed = to, time.Now()
	b.mu.Unlock()
	level := slog.LevelInfo
	if to == gobreaker.StateOpen {
		level = slog.LevelWarn
	}
	b.log.LogAttrs(context.Background(), level, "psp breaker changed state", slog.String("client", name),
		slog.String("from", from.String()), slog.String("to", to.String()), slog.Duration("open_for", b.openFor))
}

// current is the state as of the last change. An open breaker stays so until a call asks after its time is over.
func (b *breaker) current() gobreaker.State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state
}

// allow asks for leave to make one call. The error is errBreakerOpen with the time until the next probe.
func (b *breaker) allow() (*permit, time.Duration, error) {
	if b.off {
		return &permit{done: func(error) {}}, 0, nil
	}
	done, err := b.two.Allow()
	if err != nil {
		return nil, b.retryAfter(), fmt.Errorf("%w: %w", errBreakerOpen, err)
	}
	return &permit{done: done}, 0, nil
}

// retryAfter is the time until a call has a chance: the end of the open time; or, while a probe is under way, the time by
// which it has been judged.
func (b *breaker) retryAfter() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	closedFor := b.openFor
	if b.state == gobreaker.StateHalfOpen {
		closedFor = b.slowAfter
	}
	return max(minRetryAfter, time.Until(b.changed.Add(closedFor)))
}

// permit is the leave to make one call. Whoever holds it must report, once; only the first report counts.
type permit struct {
	done func(error)
	once sync.Once
}

// report tells the breaker what came of the call, and whether this was the first report.
func (p *permit) report(e effect) (first bool) {
	p.once.Do(func() {
		first = true
		switch e {
		case success:
			p.done(nil)
		case failure:
			p.done(errFailure)
		default:
			p.done(errNeutral)
		}
	})
	return first
}

// failAfter reports a failure once d has passed, and then runs onSlow, unless the call was reported before. The caller stops the
// returned timer when the call has ended.
func (p *permit) failAfter(d time.Duration, onSlow func()) *time.Timer {
	return time.AfterFunc(d, func() {
		if p.report(failure) {
			onSlow()
		}
	})
}
