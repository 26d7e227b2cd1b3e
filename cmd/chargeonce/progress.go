package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"chargeonce/reconcile"
)

const (
	// barAfter is how long a pass takes before it gets a bar, barEvery how often the bar is drawn.
	barAfter = time.Second
	barEvery = 100 * time.Millisecond
	barWidth = 30
)

// progressBar shows on a terminal how far a long pass is, in one line that is drawn over and over. A nil bar shows nothing.
type progressBar struct {
	w     io.Writer
	color bool
	now   func() time.Time

	mu           sync.Mutex
	began, drawn time.Time
	line         string // what stands on the terminal; "" when nothing does
}

// newProgressBar returns a bar for standard error, or nil when that is no terminal, or one that cannot go back in its line.
func newProgressBar(f *os.File) *progressBar {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return &progressBar{w: f, color: os.Getenv("NO_COLOR") == "", now: time.Now} // no-color.org
}

// show is a [reconcile.Config.Progress].
func (b *progressBar) show(p reconcile.Progress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if b.began.IsZero() {
		b.began = now
	}
	if now.Sub(b.began) < barAfter || now.Sub(b.drawn) < barEvery {
		return
	}
	b.drawn = now
	b.line = b.render(p)
	b.write("\r" + b.line + eraseToEnd)
}

// eraseToEnd clears what an earlier, longer line left (ECMA-48, EL).
const eraseToEnd = "\x1b[K"

func (b *progressBar) render(p reconcile.Progress) string {
	line := fmt.Sprintf("%-15s  ", p.Phase)
	if p.Share >= 0 {
		full := int(p.Share * barWidth)
		line += "[" + b.green(strings.Repeat("#", full)) + strings.Repeat("-", barWidth-full) + fmt.Sprintf("] %3d %%", int(p.Share*100))
	}
	return line + fmt.Sprintf("  %d", p.Done)
}

func (b *progressBar) green(s string) string {
	if !b.color || s == "" {
		return s
	}
	return "\x1b[32m" + s + "\x1b[0m"
}

// end takes the bar away at the end of a pass. The next pass gets one when it is long too.
func (b *progressBar) end() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.line != "" {
		b.write("\r" + eraseToEnd)
	}
	b.line, b.began = "", time.Time{}
}

// above runs something that writes to the same terminal, with the bar out of its way.
func (b *progressBar) above(write func() error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.line == "" {
		return write()
	}
	b.write("\r" + eraseToEnd)
	err := write()
	b.write(b.line)
	return err
}

// write draws. A terminal that went away is no reason to stop a pass; the bar is not drawn again.
func (b *progressBar) write(s string) {
	if _, err := io.WriteString(b.w, s); err != nil {
		b.w = io.Discard
	}
}

// logger is log, its lines above the bar.
func (b *progressBar) logger(log *slog.Logger) *slog.Logger {
	if b == nil {
		return log
	}
	return slog.New(aboveBar{log.Handler(), b})
}

// aboveBar is a slog.Handler that writes above a bar.
type aboveBar struct {
	slog.Handler
	bar *progressBar
}

// Handle implements slog.Handler.
func (h aboveBar) Handle(ctx context.Context, r slog.Record) error {
	return h.bar.above(func() error { return h.Handler.Handle(ctx, r) })
}

// WithAttrs implements slog.Handler.
func (h aboveBar) WithAttrs(attrs []slog.Attr) slog.Handler {
	return aboveBar{h.Handler.WithAttrs(attrs), h.bar}
}

// WithGroup implements slog.Handler.
func (h aboveBar) WithGroup(name string) slog.Handler {
	return aboveBar{h.Handler.WithGroup(name), h.bar}
}
