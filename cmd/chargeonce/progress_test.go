package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chargeonce/reconcile"
)

func TestProgressBar(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		color bool
		want  string
	}{
		{"plain", false, "\rstuck keys       [###############---------------]  50 %  10\x1b[K" +
			"\r\x1b[Klevel=INFO msg=hello user=7\nstuck keys       [###############---------------]  50 %  10" +
			"\rpurge              3\x1b[K" + "\r\x1b[K"},
		{"in colour", true, "\rstuck keys       [\x1b[32m###############\x1b[0m---------------]  50 %  10\x1b[K" +
			"\r\x1b[Klevel=INFO msg=hello user=7\nstuck keys       [\x1b[32m###############\x1b[0m---------------]  50 %  10" +
			"\rpurge              3\x1b[K" + "\r\x1b[K"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			now := time.Unix(0, 0)
			b := &progressBar{w: &out, color: tt.color, now: func() time.Time { return now }}
			log := b.logger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			}}))).With("user", 7)
			half := reconcile.Progress{Phase: "stuck keys", Done: 10, Share: 0.5}
			b.show(half) // too early for a bar
			now = now.Add(barAfter)
			b.show(half)
			b.show(reconcile.Progress{Phase: "stuck keys", Done: 11, Share: 0.55}) // too soon for another drawing
			log.Info("hello")
			now = now.Add(barEvery)
			b.show(reconcile.Progress{Phase: "purge", Done: 3, Share: -1})
			b.end()
			now = now.Add(time.Hour)
			b.show(half) // the next pass is short so far
			b.end()
			if diff := cmp.Diff(tt.want, out.String()); diff != "" {
				t.Errorf("the terminal got (-want +got):\n%s", diff)
			}
		})
	}
}

func TestProgressBarIsForTerminalsAlone(t *testing.T) {
	t.Parallel()
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}()
	b := newProgressBar(f)
	if b != nil {
		t.Error("a file got a bar")
	}
	log := slog.New(slog.DiscardHandler)
	if b.logger(log) != log {
		t.Error("without a bar the log is another one")
	}
	b.end()
}
