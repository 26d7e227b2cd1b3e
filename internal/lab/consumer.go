package lab

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"strings"
	"time"

	"chargeonce/internal/mysql"
)

var consumerExperiment = with(Experiment{
	Name:  "consumer",
	Title: "Events that are delivered again: effects that count twice, get lost, come out of order or never end; and the outbox",
	Shows: `A consumer has an event's effect and then tells the broker how far it is. Those are two systems, so a crash between the two
is always possible, and the broker then delivers again: at least once is all that it can promise. A naive consumer adds the points
twice. One that records the event's id first and adds the points after loses them, when it crashes in between. Id and effect in one
transaction count once, wherever it crashes; this service's webhook inbox is built like that. Order is a promise of its own: what
arrives last need not be newest, so a write carries a version (in this service, the rank of a payment's status). An event that crashes every
consumer is delivered for ever and holds up all behind it, unless its deliveries are counted outside of the consumer and it is set
aside. And whoever writes a row and publishes an event has the same two systems the other way round: a crash between the two loses the
event, or leaves one for a row that never was. The outbox writes the event beside the row, in its transaction, and a relay publishes
what is committed: at least once, which the consumer takes.`,
	Code: []string{"internal/lab/consumer.go", "internal/lab/consumerorder.go", "internal/lab/outbox.go", "webhook/inbox.go", "webhook/retry.go",
		"internal/payment/store.go"},
	Bound: time.Minute,
}, consumerNumbers{MaxDeliveries: 5, Watched: 30, Orders: 60, CrashOneIn: 6},
	consumerNumbers{MaxDeliveries: 3, Watched: 6, Orders: 12, CrashOneIn: 4}, runConsumer)

// consumerNumbers are how much there is of it.
type consumerNumbers struct {
	MaxDeliveries int `help:"Deliveries of an event before it is set aside as a dead letter."`
	Watched       int `help:"Deliveries for which a consumer without that limit is watched."`
	Orders        int `help:"Orders that are placed, each with an event worth one point."`
	CrashOneIn    int `help:"The producer crashes between its two writes at one order in so many." min:"2"`
}

func runConsumer(ctx context.Context, env Env, o Options, n consumerNumbers) (r Report, err error) {
	err = env.withDatabase(ctx, func(s *site) error {
		if err := createConsumerTables(ctx, s.db.DB); err != nil {
			return err
		}
		for _, part := range []func(context.Context, *site, *Report) error{redelivery, reordering, n.poison, n.producing(o.Seed)} {
			if err := part(ctx, s, &r); err != nil {
				return err
			}
		}
		return nil
	})
	return r, err
}

func createConsumerTables(ctx context.Context, db *sql.DB) error {
	return createTables(ctx, db,
		`CREATE TABLE accounts (id VARCHAR(32) NOT NULL PRIMARY KEY, points BIGINT NOT NULL, tier VARCHAR(16) NOT NULL DEFAULT '',
			version BIGINT NOT NULL DEFAULT 0)`,
		`CREATE TABLE processed_events (consumer VARCHAR(32) NOT NULL, event_id VARCHAR(64) NOT NULL, PRIMARY KEY (consumer, event_id))`,
		`CREATE TABLE deliveries (event_id VARCHAR(64) NOT NULL PRIMARY KEY, n INT NOT NULL)`,
		`CREATE TABLE dead_letters (event_id VARCHAR(64) NOT NULL PRIMARY KEY, account VARCHAR(32) NOT NULL, points BIGINT NOT NULL,
			deliveries INT NOT NULL)`,
		`CREATE TABLE orders (way VARCHAR(16) NOT NULL, id VARCHAR(64) NOT NULL, PRIMARY KEY (way, id))`,
		`CREATE TABLE outbox (seq BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, event_id VARCHAR(64) NOT NULL UNIQUE, account VARCHAR(32) NOT NULL,
			points BIGINT NOT NULL, published_at DATETIME(3) NULL, KEY waiting (published_at, seq))`,
	)
}

// pointsEvent adds points to an account.
type pointsEvent struct {
	id, account string
	points      int64
}

// partition is an ordered queue such as a broker's partition: it delivers what lies behind the offset, again and again, until the
// consumer moves the offset. It outlives its consumers.
type partition struct {
	log    []pointsEvent
	offset int
}

func (p *partition) publish(e pointsEvent) { p.log = append(p.log, e) }
func (p *partition) pending() []pointsEvent {
	return p.log[p.offset:]
}
func (p *partition) commit(n int) { p.offset += n }

// effectWay is a way to have an event's effect. wrote is called after each of the way's writes, with its number from 1, and before
// the commit if the writes share one.
type effectWay struct {
	name  string
	apply func(ctx context.Context, l *life, e pointsEvent, wrote func(n int) error) (outcome string, err error)
}

const (
	addPoints = "UPDATE accounts SET points = points + ? WHERE id = ?"
	recordID  = "INSERT INTO processed_events (consumer, event_id) VALUES (?, ?)"

	applied = "applied"
	skipped = "skipped"
)

// naively adds the points, whatever was delivered before.
func naively(ctx context.Context, l *life, e pointsEvent, wrote func(int) error) (string, error) {
	if err := l.exec(ctx, addPoints, e.points, e.account); err != nil {
		return "", err
	}
	return applied, wrote(1)
}

// idFirst records the id, and then adds the points: two transactions.
func idFirst(ctx context.Context, l *life, e pointsEvent, wrote func(int) error) (string, error) {
	err := l.exec(ctx, recordID, "points "+e.account, e.id)
	if mysql.Duplicate(err) {
		return skipped, nil
	}
	if err != nil {
		return "", err
	}
	if err := wrote(1); err != nil {
		return "", err
	}
	if err := l.exec(ctx, addPoints, e.points, e.account); err != nil {
		return "", err
	}
	return applied, wrote(2)
}

// together records the id and adds the points in one transaction: both, or neither.
func together(ctx context.Context, l *life, e pointsEvent, wrote func(int) error) (string, error) {
	err := mysql.WithTx(ctx, l.db, func(tx mysql.Querier) error {
		if _, err := tx.ExecContext(ctx, recordID, "points "+e.account, e.id); err != nil {
			return err
		}
		if err := wrote(1); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, addPoints, e.points, e.account); err != nil {
			return err
		}
		return wrote(2)
	})
	if mysql.Duplicate(err) {
		return skipped, nil
	}
	return applied, err
}

// uneventful is for a write behind which nothing happens.
func uneventful(int) error { return nil }

// redelivery has consumers crash once, at one of three places, and be delivered everything again that they had not told the broker of.
func redelivery(ctx context.Context, s *site, r *Report) error {
	ways := []effectWay{{"naive", naively}, {"id first, then the effect", idFirst}, {"id and effect in one transaction", together}}
	documents := []string{"30", "", "15"}
	places := []string{"before the offset", "after e2's first write", "after its second, before the commit"}
	t := Table{Title: "e1 is worth 10 points and e2 5; the consumer crashes once, and starts again: points, 15 are right",
		Columns: append([]string{"consumer", "document, " + places[0]}, places...)}
	p := Plot{Title: "Points after a crash and a redelivery (15 are right)", Y: "points", Series: []Series{
		{Name: places[0] + ", document", Document: true, Y: []float64{30, math.NaN(), 15}},
		{Name: places[0] + ", here"}, {Name: places[1] + ", here"}, {Name: places[2] + ", here"}}}
	var points [3][3]int64
	for i, w := range ways {
		row := []string{w.name, documents[i]}
		for place := range places {
			account := fmt.Sprintf("redelivery-%d-%d", i, place)
			trace, err := s.redeliver(ctx, w, account, place)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			if points[i][place], err = s.count(ctx, "SELECT points FROM accounts WHERE id = ?", account); err != nil {
				return err
			}
			row = append(row, fmt.Sprint(points[i][place]))
			p.Series[1+place].Y = append(p.Series[1+place].Y, float64(points[i][place]))
			if place == 0 {
				r.Notes = append(r.Notes, w.name+": "+trace)
			}
		}
		t.add(row...)
		p.Categories = append(p.Categories, w.name)
	}
	r.Tables, r.Plots = append(r.Tables, t), append(r.Plots, p)

	r.equal("naive: points, crash before the offset, twice what is right", 30, points[0][0])
	r.equal("id first: points, crash after e2's first write, whose effect is lost", 10, points[1][1])
	for place, name := range places {
		r.equal("one transaction: points, crash "+name, 15, points[2][place])
	}
	return nil
}

// redeliver has a consumer take two events and crash once: after a write of the second, or, with place 0, behind both.
func (s *site) redeliver(ctx context.Context, w effectWay, account string, place int) (string, error) {
	if _, err := s.db.ExecContext(ctx, "INSERT INTO accounts (id, points) VALUES (?, 0)", account); err != nil {
		return "", fmt.Errorf("an account: %w", err)
	}
	var p partition
	p.publish(pointsEvent{"e1", account, 10})
	p.publish(pointsEvent{"e2", account, 5})
	var trace []string
	err := s.liveOn(ctx, 2, func(n int, l *life) error {
		batch := p.pending()
		for i, e := range batch {
			outcome, err := w.apply(ctx, l, e, func(write int) error {
				if n == 0 && i == 1 && write == place {
					return l.crash(ctx)
				}
				return nil
			})
			if err != nil {
				return err
			}
			trace = append(trace, e.id+" "+outcome)
		}
		if n == 0 {
			trace = append(trace, "crash")
			return l.crash(ctx)
		}
		p.commit(len(batch))
		return nil
	})
	return strings.Join(trace, ", "), err
}
