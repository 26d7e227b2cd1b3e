package lab

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// changes is a slog.Handler that keeps the breaker's changes of state and drops all else. The client's log is the only place
// that tells each of them with its time.
type changes struct {
	mu    sync.Mutex
	began time.Time
	all   []change
}

// change is the breaker coming into a state.
type change struct {
	at time.Duration // since the experiment began
	to string        // "open", "half-open" or "closed"
}

// breakerChanged is what package psp logs, with the new state under "to".
const breakerChanged = "psp breaker changed state"

// Enabled implements slog.Handler.
func (c *changes) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (c *changes) Handle(_ context.Context, r slog.Record) error {
	if r.Message != breakerChanged {
		return nil
	}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "to" {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.all = append(c.all, change{r.Time.Sub(c.began), a.Value.String()})
			return false
		}
		return true
	})
	return nil
}

// WithAttrs implements slog.Handler; attributes are of no use here.
func (c *changes) WithAttrs([]slog.Attr) slog.Handler { return c }

// WithGroup implements slog.Handler; neither are groups.
func (c *changes) WithGroup(string) slog.Handler { return c }

// start sets the moment from which on times are counted.
func (c *changes) start(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.began = at
}

// list returns what was seen so far.
func (c *changes) list() []change {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]change(nil), c.all...)
}

// trace words the changes in order.
func trace(all []change) string {
	if len(all) == 0 {
		return "stays closed"
	}
	words := make([]string, len(all))
	for i, c := range all {
		words[i] = fmt.Sprintf("%s %s", seconds(c.at), c.to)
	}
	return strings.Join(words, " → ")
}
