package lab

import (
	"context"
	"errors"
	"fmt"

	"chargeonce/internal/mysql"
)

// producer places orders, each with an event for whoever else has to know.
type producer struct {
	site   *site
	broker *partition
}

// producerWay is a way to write an order and have its event published. between is called between the way's two writes.
type producerWay struct {
	name, short string
	place       func(ctx context.Context, p *producer, l *life, e pointsEvent, between func() error) error
	relay       bool // what is published is what a relay finds in the outbox
}

const insertOrder = "INSERT INTO orders (way, id) VALUES (?, ?)"

func producerWays() []producerWay {
	return []producerWay{
		{name: "dual write, the row first", short: "row first", place: rowFirst},
		{name: "dual write, the event first", short: "event first", place: eventFirst},
		{name: "outbox", short: "outbox", place: intoOutbox, relay: true},
	}
}

// rowFirst commits the order, and then publishes.
func rowFirst(ctx context.Context, p *producer, l *life, e pointsEvent, between func() error) error {
	if err := l.exec(ctx, insertOrder, e.account, e.id); err != nil {
		return err
	}
	if err := between(); err != nil {
		return err
	}
	p.broker.publish(e)
	return nil
}

// eventFirst publishes, and then commits the order.
func eventFirst(ctx context.Context, p *producer, l *life, e pointsEvent, between func() error) error {
	p.broker.publish(e)
	if err := between(); err != nil {
		return err
	}
	return l.exec(ctx, insertOrder, e.account, e.id)
}

// intoOutbox commits the order and its event together. It tells the broker nothing.
func intoOutbox(ctx context.Context, _ *producer, l *life, e pointsEvent, between func() error) error {
	return mysql.WithTx(ctx, l.db, func(tx mysql.Querier) error {
		if _, err := tx.ExecContext(ctx, insertOrder, e.account, e.id); err != nil {
			return err
		}
		if err := between(); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO outbox (event_id, account, points) VALUES (?, ?, ?)", e.id, e.account, e.points)
		return err
	})
}

// relayBatch is how many events the relay publishes before it notes that it has.
const relayBatch = 4

// publishWaiting is the relay: it publishes what is committed and not published yet, in order, and then notes that it has. A crash
// between the two has it publish again: at least once. It locks what it takes, so that several relays share the work.
//
// A seq that is lower than one which was published may still be committed later; who needs the order across transactions has to
// read the database's log instead (change data capture).
func (p *producer) publishWaiting(ctx context.Context, l *life, between func() error) error {
	return mysql.WithTx(ctx, l.db, func(tx mysql.Querier) error {
		batch, err := waiting(ctx, tx)
		if err != nil {
			return err
		}
		for _, e := range batch {
			p.broker.publish(e)
		}
		if err := between(); err != nil {
			return err
		}
		for _, e := range batch {
			if _, err := tx.ExecContext(ctx, "UPDATE outbox SET published_at = NOW(3) WHERE event_id = ?", e.id); err != nil {
				return err
			}
		}
		return nil
	})
}

func waiting(ctx context.Context, tx mysql.Querier) (batch []pointsEvent, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT event_id, account, points FROM outbox WHERE published_at IS NULL ORDER BY seq LIMIT ?
		FOR UPDATE SKIP LOCKED`, relayBatch)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var e pointsEvent
		if err := rows.Scan(&e.id, &e.account, &e.points); err != nil {
			return nil, err
		}
		batch = append(batch, e)
	}
	return batch, rows.Err()
}

// safely is for a place between two writes at which nothing happens.
func safely() error { return nil }

// produced is what came of one way.
type produced struct {
	orders, crashes  int64
	lost, ghosts     int64 // orders whose event was never published; events whose order is not there
	published, twice int64 // publications, and those of them that were repeats
	points           int64 // that the consumer has counted
}

// producing places orders in each way and has an idempotent consumer count their events. The seed decides which orders crash.
func (n consumerNumbers) producing(seed uint64) func(context.Context, *site, *Report) error {
	return func(ctx context.Context, s *site, r *Report) error {
		t := Table{Title: fmt.Sprintf("%d orders, the producer crashing between its two writes at one in %d; one point for each event",
			n.Orders, n.CrashOneIn),
			Columns: []string{"producer", "crashes", "orders", "events lost", "events without an order", "published again", "points"}}
		p := Plot{Title: "What a crash between two writes leaves", Y: "events", Series: []Series{{Name: "lost"}, {Name: "without an order"}}}
		all := map[string]produced{}
		for _, w := range producerWays() {
			got, err := n.produce(ctx, s, w, int(seed%uint64(n.CrashOneIn)))
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			all[w.short] = got
			t.add(w.name, fmt.Sprint(got.crashes), fmt.Sprint(got.orders), fmt.Sprint(got.lost), fmt.Sprint(got.ghosts),
				fmt.Sprint(got.twice), fmt.Sprint(got.points))
			p.Categories = append(p.Categories, w.name)
			p.Series[0].Y = append(p.Series[0].Y, float64(got.lost))
			p.Series[1].Y = append(p.Series[1].Y, float64(got.ghosts))
		}
		r.Tables, r.Plots = append(r.Tables, t), append(r.Plots, p)

		row, event, outbox := all["row first"], all["event first"], all["outbox"]
		r.equal("row first: events lost, one for each crash", row.crashes, row.lost)
		r.equal("event first: events without an order, one for each crash", event.crashes, event.ghosts)
		r.equal("outbox: events lost, and events without an order", 0, outbox.lost+outbox.ghosts)
		r.atLeast("outbox: events published again, since the relay crashed", 1, outbox.twice)
		r.equal("outbox: points, one for each order", outbox.orders, outbox.points)
		return nil
	}
}

// produce places the orders in one way; which of CrashOneIn in a row crashes is what crashAt says.
func (n consumerNumbers) produce(ctx context.Context, s *site, w producerWay, crashAt int) (produced, error) {
	if _, err := s.db.ExecContext(ctx, "INSERT INTO accounts (id, points) VALUES (?, 0)", w.short); err != nil {
		return produced{}, fmt.Errorf("an account: %w", err)
	}
	p := &producer{site: s, broker: &partition{}}
	var crashes int64
	next := 0
	err := s.liveOn(ctx, n.Orders+1, func(_ int, l *life) error {
		for next < n.Orders {
			i := next
			next++ // a customer whose order crashed does not come back
			between := safely
			if i%n.CrashOneIn == crashAt {
				crashes++
				between = func() error { return l.crash(ctx) }
			}
			if err := w.place(ctx, p, l, pointsEvent{fmt.Sprintf("order-%d", i), w.short, 1}, between); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && w.relay {
		err = p.relay(ctx)
	}
	if err != nil {
		return produced{}, err
	}
	return p.count(ctx, w, crashes)
}

// relay runs the relay until nothing waits. Its first life crashes when it has published and not yet noted it.
func (p *producer) relay(ctx context.Context) error {
	return p.site.liveOn(ctx, 2, func(n int, l *life) error {
		between := safely
		if n == 0 {
			between = func() error { return l.crash(ctx) }
		}
		// What the crashed life had taken stays locked until the server has rolled it back, and is skipped until then.
		return until(ctx, "the outbox to be empty", func() (bool, error) {
			if err := p.publishWaiting(ctx, l, between); err != nil {
				return false, err
			}
			left, err := p.site.count(ctx, "SELECT COUNT(*) FROM outbox WHERE published_at IS NULL")
			return left == 0, err
		})
	})
}

// count has the consumer take everything, and holds the orders against the events.
func (p *producer) count(ctx context.Context, w producerWay, crashes int64) (produced, error) {
	got := produced{crashes: crashes}
	if _, err := p.site.live(ctx, func(l *life) error {
		for _, e := range p.broker.pending() {
			if _, err := together(ctx, l, e, uneventful); err != nil {
				return err
			}
			p.broker.commit(1)
		}
		return nil
	}); err != nil {
		return got, err
	}
	seen := map[string]bool{}
	for _, e := range p.broker.log {
		got.published++
		if seen[e.id] {
			got.twice++
			continue
		}
		seen[e.id] = true
		there, err := p.site.count(ctx, "SELECT COUNT(*) FROM orders WHERE way = ? AND id = ?", w.short, e.id)
		if err != nil {
			return got, err
		}
		got.ghosts += 1 - there
	}
	var err error
	if got.orders, err = p.site.count(ctx, "SELECT COUNT(*) FROM orders WHERE way = ?", w.short); err != nil {
		return got, err
	}
	got.lost = got.orders - (int64(len(seen)) - got.ghosts)
	got.points, err = p.site.count(ctx, "SELECT points FROM accounts WHERE id = ?", w.short)
	return got, err
}
