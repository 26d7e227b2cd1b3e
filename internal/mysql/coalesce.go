package mysql

import "sync"

// Coalescer runs items in batches: whatever is waiting when a worker is free goes together, at most Most at a time, and nothing
// waits for a batch to fill. So one item alone goes at once, as if there were no coalescer, and under load the cost of a commit
// is shared by all that wait for it.
type Coalescer[T any] struct {
	// Workers bounds the batches at once. With two, one gathers while the other waits for its commit.
	Workers int
	// Most bounds the items of a batch.
	Most int
	// Run does a batch. It must tell each item's outcome to whoever waits for it.
	Run func([]T)

	mu      sync.Mutex
	queue   []T
	running int
}

// Add hands over an item. It does not wait. The workers end by themselves when nothing is left to do.
func (c *Coalescer[T]) Add(item T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = append(c.queue, item)
	if c.running < c.Workers {
		c.running++
		go c.work()
	}
}

func (c *Coalescer[T]) work() {
	for batch := c.next(); len(batch) > 0; batch = c.next() {
		c.Run(batch)
	}
}

// next takes what is waiting. A worker that gets nothing has ended.
func (c *Coalescer[T]) next() []T {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(c.queue), c.Most)
	if n == 0 {
		c.running--
		return nil
	}
	batch := c.queue[:n:n]
	c.queue = c.queue[n:]
	if len(c.queue) == 0 {
		c.queue = nil // let go of what was handed out
	}
	return batch
}

// Len is how many items wait for a worker.
func (c *Coalescer[T]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queue)
}
