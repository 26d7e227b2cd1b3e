package lab

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progress is a line on a terminal that says what is being made, and for how long. Without a terminal it does nothing. What the
// terminal says to it is not looked at: the line is no result.
type progress struct {
	w     io.Writer
	stop  chan struct{}
	ended sync.WaitGroup

	mu    sync.Mutex
	what  string // empty: the line is hidden
	since time.Time
	fails bool // the terminal takes nothing more
}

// progressEvery is how often the line is written, so that its clock moves.
const progressEvery = time.Second

// newProgress starts the line, hidden; see end.
func newProgress(w io.Writer) *progress {
	p := &progress{w: w, stop: make(chan struct{})}
	if w != nil {
		p.ended.Go(func() {
			tick := time.NewTicker(progressEvery)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					p.draw()
				case <-p.stop:
					return
				}
			}
		})
	}
	return p
}

// show says what is being made from now on.
func (p *progress) show(what string) {
	p.mu.Lock()
	p.what, p.since = what, time.Now()
	p.mu.Unlock()
	p.draw()
}

func (p *progress) draw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.what != "" {
		p.write(fmt.Sprintf("\r\x1b[K%s  %s", p.what, time.Since(p.since).Round(time.Second)))
	}
}

// hide takes the line off the terminal, for something else to be written there.
func (p *progress) hide() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.what != "" {
		p.write("\r\x1b[K")
		p.what = ""
	}
}

// write needs the lock.
func (p *progress) write(text string) {
	if p.w == nil || p.fails {
		return
	}
	if _, err := io.WriteString(p.w, text); err != nil {
		p.fails = true
	}
}

// end takes the line away for good.
func (p *progress) end() {
	close(p.stop)
	p.ended.Wait()
	p.hide()
}
