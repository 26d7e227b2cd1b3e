package gatewaysim

import (
	"container/heap"
	"net/http"
	"sync"
	"time"
)

// delivery is one try to come.
type delivery struct {
	seq     uint64
	at      time.Time
	attempt int  // how many came before; a delivery whose number has passed is void
	extra   bool // beside the schedule: sent whatever the event's state, and never tried again
}

func (d delivery) when() (time.Time, uint64) { return d.at, d.seq }

// dispatcher delivers events when they are due. The file says what is queued, the timeline when it is due.
type dispatcher struct {
	sim    *Sim
	client *http.Client
	wake   chan struct{}
	slots  chan struct{} // one per delivery under way

	mu  sync.Mutex
	url string
	due timeline[delivery]
}

func newDispatcher(s *Sim) *dispatcher {
	return &dispatcher{
		sim: s, url: s.cfg.WebhookURL,
		wake:  make(chan struct{}, 1),
		slots: make(chan struct{}, s.cfg.WebhookConcurrency),
		client: &http.Client{
			Timeout: s.cfg.WebhookTimeout,
			// A redirect is no 2xx, so the delivery has failed.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{
				MaxIdleConnsPerHost: s.cfg.WebhookConcurrency,
				IdleConnTimeout:     30 * time.Second,
			},
		},
	}
}

// load takes up the events that a process before left in the queue.
func (d *dispatcher) load() {
	for _, rec := range d.sim.store.queued() {
		d.push(delivery{seq: rec.Seq, at: rec.NextAt, attempt: rec.Attempts})
	}
}

func (d *dispatcher) push(next delivery) {
	d.mu.Lock()
	heap.Push(&d.due, next)
	d.mu.Unlock()
	d.kick()
}

// kick makes the loop look again.
func (d *dispatcher) kick() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

func (d *dispatcher) setURL(url string) {
	d.mu.Lock()
	d.url = url
	d.mu.Unlock()
	d.kick()
}

func (d *dispatcher) currentURL() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.url
}

// idleWait is how long the loop sleeps when nothing is due and nobody calls.
const idleWait = 5 * time.Minute

// run starts each delivery when it is due, and returns when the Sim closes and the last one has ended.
func (d *dispatcher) run() {
	var running sync.WaitGroup
	defer running.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		next, wait, ok := d.next()
		if ok {
			select {
			case d.slots <- struct{}{}:
			case <-d.sim.ctx.Done():
				return
			}
			running.Go(func() {
				defer func() { <-d.slots }()
				d.deliver(next)
			})
			continue
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-d.wake:
		case <-d.sim.ctx.Done():
			return
		}
	}
}

// next takes the delivery that is due from the timeline. When there is none, or deliveries are held back, it says how long to
// wait.
func (d *dispatcher) next() (next delivery, wait time.Duration, ok bool) {
	held, change := d.sim.faults.Load().webhooksHeld()
	wait = idleWait
	if change > 0 {
		wait = min(wait, change)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if held || d.url == "" || len(d.due) == 0 {
		return next, wait, false
	}
	if until := time.Until(d.due[0].at); until > 0 {
		return next, min(wait, until), false
	}
	return heap.Pop(&d.due).(delivery), 0, true
}
