package lab

import (
	"context"
	"fmt"

	"chargeonce/internal/mysql"
)

// tierEvent sets an account's tier. A later one has a higher version.
type tierEvent struct {
	version int64
	tier    string
}

// reordering delivers three changes of one account in every order in which they can arrive.
func reordering(ctx context.Context, s *site, r *Report) error {
	changes := []tierEvent{{1, "bronze"}, {2, "silver"}, {3, "gold"}}
	ways := []struct{ name, query string }{
		{"the last to arrive wins", "UPDATE accounts SET tier = ?, version = ? WHERE id = ?"},
		{"the highest version wins", "UPDATE accounts SET tier = ?, version = ? WHERE id = ? AND version < ?"},
	}
	orders := permutations(len(changes))
	t := Table{Title: "Three changes of one account, in every order", Columns: []string{"the consumer's write", "orders", "end as gold"}}
	right := make([]int64, len(ways))
	for w, way := range ways {
		for i, order := range orders {
			account := fmt.Sprintf("tier-%d-%d", w, i)
			if _, err := s.db.ExecContext(ctx, "INSERT INTO accounts (id, points) VALUES (?, 0)", account); err != nil {
				return fmt.Errorf("an account: %w", err)
			}
			for _, at := range order {
				args := []any{changes[at].tier, changes[at].version, account}
				if w == 1 {
					args = append(args, changes[at].version)
				}
				if _, err := s.db.ExecContext(ctx, way.query, args...); err != nil {
					return fmt.Errorf("%s: %w", way.name, err)
				}
			}
			n, err := s.count(ctx, "SELECT COUNT(*) FROM accounts WHERE id = ? AND tier = 'gold'", account)
			if err != nil {
				return err
			}
			right[w] += n
		}
		t.add(way.name, fmt.Sprint(len(orders)), fmt.Sprint(right[w]))
	}
	r.Tables = append(r.Tables, t)
	all := int64(len(orders))
	r.atMost(ways[0].name+": orders that end as gold, not all of them", all-1, right[0])
	r.equal(ways[1].name+": orders that end as gold", all, right[1])
	return nil
}

// permutations returns every order of the numbers below n.
func permutations(n int) [][]int {
	if n == 0 {
		return [][]int{nil}
	}
	var out [][]int
	for _, shorter := range permutations(n - 1) {
		for at := range n {
			order := append(append(append([]int{}, shorter[:at]...), n-1), shorter[at:]...)
			out = append(out, order)
		}
	}
	return out
}

// poisonous is the event that crashes every consumer, until somebody mends what it trips over: its account is not there.
const poisonous = "poison"

// poison puts an event that crashes its consumer before two others, and has consumers without a limit and with one take them.
func (n consumerNumbers) poison(ctx context.Context, s *site, r *Report) error {
	t := Table{Title: "An event that crashes every consumer, and two behind it",
		Columns: []string{"consumer", "deliveries of it", "of those behind it, applied", "dead letters"}}
	lives, err := n.takePoison(ctx, s, "endless", n.Watched, n.Watched+1)
	if err != nil {
		return err
	}
	endless, err := s.poisoned(ctx, "endless")
	if err != nil {
		return err
	}
	t.add("delivers for ever", fmt.Sprintf("%d, and no end", lives), fmt.Sprint(endless.behind), fmt.Sprint(endless.dead))

	// One life more than the deliveries: the one that sets it aside and goes on.
	lives, err = n.takePoison(ctx, s, "limited", n.MaxDeliveries+1, n.MaxDeliveries)
	if err != nil {
		return err
	}
	limited, err := s.poisoned(ctx, "limited")
	if err != nil {
		return err
	}
	t.add(fmt.Sprintf("sets aside after %d", n.MaxDeliveries), fmt.Sprint(lives), fmt.Sprint(limited.behind), fmt.Sprint(limited.dead))

	mended, err := s.redrive(ctx, "limited")
	if err != nil {
		return err
	}
	t.add("mended, the dead letter taken twice", "", fmt.Sprint(mended.behind), fmt.Sprint(mended.dead))
	r.Tables = append(r.Tables, t)

	r.equal("without a limit: events behind the poison that were applied", 0, endless.behind)
	r.equal("with a limit: deliveries of the poison", int64(n.MaxDeliveries), int64(lives))
	r.equal("with a limit: events behind it that were applied", 2, limited.behind)
	r.equal("with a limit: dead letters", 1, limited.dead)
	r.equal("once mended: dead letters", 0, mended.dead)
	r.equal("once mended: points of the dead letter, which was taken twice", 7, mended.points)
	return nil
}

// takePoison runs consumers, at most so many lives, over a partition that begins with the poison, and returns how many crashed.
func (n consumerNumbers) takePoison(ctx context.Context, s *site, account string, lives, limit int) (crashes int, err error) {
	if _, err := s.db.ExecContext(ctx, "INSERT INTO accounts (id, points) VALUES (?, 0)", account); err != nil {
		return 0, fmt.Errorf("an account: %w", err)
	}
	var p partition
	p.publish(pointsEvent{poisonous + "-" + account, account + "-missing", 7})
	p.publish(pointsEvent{"behind-1-" + account, account, 1})
	p.publish(pointsEvent{"behind-2-" + account, account, 1})
	for range lives {
		crashed, err := s.live(ctx, func(l *life) error {
			for _, e := range p.pending() {
				if err := takeLimited(ctx, l, e, limit); err != nil {
					return err
				}
				p.commit(1)
			}
			return nil
		})
		if err != nil || !crashed {
			return crashes, err
		}
		crashes++
	}
	return crashes, nil
}

// takeLimited counts the delivery before anything else, in a transaction of its own, so that a crash counts too. An event that was
// delivered as often as it may goes to the dead letters in place of having its effect.
func takeLimited(ctx context.Context, l *life, e pointsEvent, limit int) error {
	if err := l.exec(ctx, "INSERT INTO deliveries (event_id, n) VALUES (?, 1) ON DUPLICATE KEY UPDATE n = n + 1", e.id); err != nil {
		return err
	}
	var deliveries int
	if err := l.db.QueryRowContext(ctx, "SELECT n FROM deliveries WHERE event_id = ?", e.id).Scan(&deliveries); err != nil {
		return fmt.Errorf("deliveries of %s: %w", e.id, err)
	}
	if deliveries > limit {
		err := l.exec(ctx, "INSERT INTO dead_letters (event_id, account, points, deliveries) VALUES (?, ?, ?, ?)", e.id, e.account, e.points, limit)
		if mysql.Duplicate(err) {
			return nil // it was set aside, and the offset was not told
		}
		return err
	}
	return takeOrCrash(ctx, l, e)
}

// takeOrCrash has the effect, if the account is there. If it is not, this consumer does what a bug does.
func takeOrCrash(ctx context.Context, l *life, e pointsEvent) error {
	var there int
	if err := l.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM accounts WHERE id = ?", e.account).Scan(&there); err != nil {
		return fmt.Errorf("account %s: %w", e.account, err)
	}
	if there == 0 {
		return l.crash(ctx)
	}
	_, err := together(ctx, l, e, uneventful)
	return err
}

// poisonCount is what stands in the tables.
type poisonCount struct{ behind, dead, points int64 }

// poisoned counts the points of the account behind the poison, one for each event, the dead letters, and the poison's own points.
func (s *site) poisoned(ctx context.Context, account string) (c poisonCount, err error) {
	if c.behind, err = s.count(ctx, "SELECT points FROM accounts WHERE id = ?", account); err != nil {
		return c, err
	}
	if c.dead, err = s.count(ctx, "SELECT COUNT(*) FROM dead_letters"); err != nil {
		return c, err
	}
	c.points, err = s.count(ctx, "SELECT COALESCE(SUM(points), 0) FROM accounts WHERE id = ?", account+"-missing")
	return c, err
}

// redrive mends what the poison tripped over and takes its dead letter, twice, as two operators would. Only then is it deleted.
func (s *site) redrive(ctx context.Context, account string) (poisonCount, error) {
	if _, err := s.db.ExecContext(ctx, "INSERT INTO accounts (id, points) VALUES (?, 0)", account+"-missing"); err != nil {
		return poisonCount{}, fmt.Errorf("an account: %w", err)
	}
	var e pointsEvent
	if err := s.db.QueryRowContext(ctx, "SELECT event_id, account, points FROM dead_letters").Scan(&e.id, &e.account, &e.points); err != nil {
		return poisonCount{}, fmt.Errorf("the dead letter: %w", err)
	}
	if _, err := s.live(ctx, func(l *life) error {
		for range 2 {
			if err := takeOrCrash(ctx, l, e); err != nil {
				return err
			}
		}
		return l.exec(ctx, "DELETE FROM dead_letters WHERE event_id = ?", e.id)
	}); err != nil {
		return poisonCount{}, err
	}
	return s.poisoned(ctx, account)
}
