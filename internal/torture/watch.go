package torture

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// snapshot is a query that must find nothing, at any moment: what it looks for is written together in one transaction, and one
// statement sees one state of the database.
type snapshot struct {
	promise int
	text    string
	query   string // gives a user and a key or an id
	recent  string // bounds it to what is new, while it is asked again and again
}

var snapshots = []snapshot{
	{
		promise: 7, text: "an event is in the inbox as applied, and its effect is not there",
		query: `
			SELECT e.user_id, e.event_id FROM webhook_events e
			LEFT JOIN payments p ON p.user_id = e.user_id AND p.charge_id = e.charge_id
			WHERE e.state = 'applied' AND e.type LIKE 'charge.%'
			  AND (p.id IS NULL OR FIELD(p.status, 'pending', 'failed', 'succeeded', 'canceled', 'refunded')
			    < FIELD(SUBSTRING(e.type, 8), 'pending', 'failed', 'succeeded', 'canceled', 'refunded'))`,
		recent: ` AND e.received_at > NOW(3) - INTERVAL 10 SECOND`,
	},
	{
		promise: 2, text: "a key is done as charged, and there is no payment",
		query: `
			SELECT k.user_id, k.idem_key FROM idempotency_keys k
			LEFT JOIN payments p ON p.user_id = k.user_id AND p.id = k.payment_id
			WHERE k.status = 'done' AND k.response_code < 300 AND p.id IS NULL`,
		recent: ` AND k.completed_at > NOW(3) - INTERVAL 10 SECOND`,
	},
}

// watchEvery is the pause between two looks.
const watchEvery = 100 * time.Millisecond

// watcher looks at the database while the attack goes on.
type watcher struct {
	site  *site
	looks int
	found []violation
}

// run looks until ctx ends.
func (w *watcher) run(ctx context.Context) {
	for pause(ctx, watchEvery) == nil {
		for _, s := range snapshots {
			found, err := w.look(ctx, s, s.query+s.recent)
			if err != nil {
				continue // the database is away, on purpose; what was missed is looked at once more at the end
			}
			w.looks++
			if len(w.found) < maxPerPromise {
				w.found = append(w.found, found...)
			}
		}
	}
}

func (w *watcher) look(ctx context.Context, s snapshot, query string) (found []violation, err error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	rows, err := w.site.db.QueryContext(ctx, query+" LIMIT 5")
	if err != nil {
		return nil, fmt.Errorf("torture: watch: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var user int64
		var id []byte
		if err := rows.Scan(&user, &id); err != nil {
			return nil, fmt.Errorf("torture: watch: %w", err)
		}
		v := violation{promise: s.promise, text: fmt.Sprintf("%s: user %d, %s", s.text, user, id)}
		if s.promise == 2 {
			v.slot = slot{user, string(id)}
		}
		found = append(found, v)
	}
	return found, rows.Err()
}
