package lab

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// tries notes when many clients made their first try, their second, and so on, by a clock for each client that begins with its
// first. As a slog.Handler it reads that in the log of the service's PSP client, which is the only place where that client tells
// each attempt of its own.
type tries struct {
	mu      sync.Mutex
	first   []time.Time       // by client
	moments [][]time.Duration // by try, in the order in which clients made it
}

func newTries(clients, each int) *tries {
	return &tries{first: make([]time.Time, clients), moments: make([][]time.Duration, each)}
}

// add notes a client's try, from 1.
func (t *tries) add(client, try int, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if try == 1 {
		t.first[client] = at
	}
	t.moments[try-1] = append(t.moments[try-1], at.Sub(t.first[client]))
}

// clientNumber is where the context of a call holds the number of the client that makes it.
type clientNumber struct{}

// What package psp logs after an attempt that failed, with its number under "attempt".
const (
	attemptRetried = "psp retry"
	attemptGivenUp = "psp call given up"
)

// Enabled implements slog.Handler.
func (t *tries) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (t *tries) Handle(ctx context.Context, r slog.Record) error {
	client, ok := ctx.Value(clientNumber{}).(int)
	if !ok || r.Message != attemptRetried && r.Message != attemptGivenUp {
		return nil
	}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key != "attempt" {
			return true
		}
		t.add(client, int(a.Value.Int64()), r.Time)
		return false
	})
	return nil
}

// WithAttrs implements slog.Handler; attributes are of no use here.
func (t *tries) WithAttrs([]slog.Attr) slog.Handler { return t }

// WithGroup implements slog.Handler; neither are groups.
func (t *tries) WithGroup(string) slog.Handler { return t }
