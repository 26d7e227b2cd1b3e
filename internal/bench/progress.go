package bench

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// bar is a progress bar on a terminal: how far, for how long, and what is being done. Without a terminal it does nothing. It is safe
// for use by many goroutines. What the terminal says to it is not looked at: the bar is no result.
type bar struct {
	w     io.Writer
	total int
	began time.Time
	stop  chan struct{}
	ended sync.WaitGroup

	mu    sync.Mutex
	done  int     // steps that have ended
	share float64 // of the step under way
	label string  // empty before the first step
	fails bool    // the terminal takes nothing more
}

// barWidth is the bar's length, barEvery how often it is drawn, so that its clock moves.
const (
	barWidth = 24
	barEvery = 500 * time.Millisecond
)

// newBar starts a bar for that many steps; see end.
func newBar(w io.Writer, total int) *bar {
	b := &bar{w: w, total: total, began: time.Now(), stop: make(chan struct{})}
	if w != nil {
		b.ended.Go(func() {
			tick := time.NewTicker(barEvery)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					b.draw()
				case <-b.stop:
					return
				}
			}
		})
	}
	return b
}

// step says that the step before has ended, and what the next one is.
func (b *bar) step(label string) {
	b.mu.Lock()
	if b.label != "" {
		b.done++
	}
	b.label, b.share = label, 0
	b.mu.Unlock()
	b.draw()
}

// part says which share of the step under way is done.
func (b *bar) part(share float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.share = share
}

func (b *bar) draw() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.label == "" {
		return
	}
	full := min(barWidth, int(barWidth*(float64(b.done)+b.share)/float64(max(1, b.total))))
	b.write(fmt.Sprintf("\r\x1b[K%s%s %d/%d  %s  %s", strings.Repeat("█", full), strings.Repeat("░", barWidth-full),
		min(b.done+1, b.total), b.total, time.Since(b.began).Round(time.Second), b.label))
}

// clear takes the bar off the terminal, for a line of the report to be written there.
func (b *bar) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.write("\r\x1b[K")
}

// write needs the lock.
func (b *bar) write(text string) {
	if b.w == nil || b.fails {
		return
	}
	if _, err := io.WriteString(b.w, text); err != nil {
		b.fails = true
	}
}

// end takes the bar away for good.
func (b *bar) end() {
	close(b.stop)
	b.ended.Wait()
	b.clear()
}
