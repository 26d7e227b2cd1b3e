package torture

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Result is what a run did and found.
type Result struct {
	Seed     uint64
	Duration time.Duration
	// Logs is the folder with the logs of all processes, when it was kept.
	Logs string

	faults     []struck
	purchases  int
	requests   int
	reasons    map[string]int64
	charges    int
	payments   int
	writes     int
	takeOvers  int
	looks      int
	quiet      time.Duration
	before     map[string]int
	after      map[string]int
	violations []violation
	books      *books
}

func newResult(s *site, n *nemesis, h *history, w *watcher, b *books, found []violation, quiet time.Duration, before, after map[string]int) *Result {
	r := &Result{
		Seed: s.cfg.Seed, Duration: s.cfg.Duration, faults: n.done, purchases: len(h.purchases), requests: len(h.ops), reasons: h.reasons,
		charges: len(b.charges), payments: len(b.payments), writes: len(b.audit), looks: w.looks, quiet: quiet,
		before: before, after: after, violations: found, books: b,
	}
	for _, row := range b.audit {
		if row.op == "UPDATE" && row.now.lease > row.old.lease {
			r.takeOvers++
		}
	}
	return r
}

// OK reports whether every promise was kept.
func (r *Result) OK() bool { return len(r.violations) == 0 }

// Write tells what was done and the verdict; after a violation also the whole timeline of the first keys that it is about.
func (r *Result) Write(w io.Writer) error {
	p := &paper{w: w}
	p.line("")
	p.line("Seed %d, %s. %d faults, of each kind:", r.Seed, r.Duration, len(r.faults))
	kinds := map[string]int{}
	for _, f := range r.faults {
		kinds[f.kind]++
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		p.line("  %-18s %d", kind, kinds[kind])
	}
	p.line("%d purchases, %d requests, %d charges, %d payments. Answers:", r.purchases, r.requests, r.charges, r.payments)
	for _, reason := range slices.Sorted(maps.Keys(r.reasons)) {
		p.line("  %-45s %d", reason, r.reasons[reason])
	}
	p.line("%d writes to keys, %d of them take-overs. %d looks at the database meanwhile. Quiet %.1f s after the last client.",
		r.writes, r.takeOvers, r.looks, r.quiet.Seconds())
	for _, name := range slices.Sorted(maps.Keys(r.after)) {
		p.line("Goroutines of server %s: %d before, %d after.", name, r.before[name], r.after[name])
	}
	r.verdict(p)
	return p.err
}

// maxTimelines is how many keys' timelines are told.
const maxTimelines = 3

func (r *Result) verdict(p *paper) {
	if r.OK() {
		p.line("Every promise was kept.")
		return
	}
	p.line("")
	p.line("VIOLATED, with seed %d:", r.Seed)
	var told []slot
	for _, v := range r.violations {
		p.line("  %s", v)
		if v.slot.key != "" && len(told) < maxTimelines && !slices.Contains(told, v.slot) {
			told = append(told, v.slot)
		}
	}
	for _, s := range told {
		p.line("")
		p.line("%s", r.books.timeline(s))
	}
	if r.Logs != "" {
		p.line("Logs: %s", r.Logs)
	}
}

// Err is ErrViolated with the violations, or nil.
func (r *Result) Err() error {
	if r.OK() {
		return nil
	}
	errs := []error{fmt.Errorf("torture: seed %d: %w", r.Seed, ErrViolated)}
	for _, v := range r.violations {
		errs = append(errs, errors.New(v.String()))
	}
	return errors.Join(errs...)
}

// event is one line of a timeline.
type event struct {
	at   time.Time
	who  string
	what string
}

// timeline tells all that is known of one key, from every side, in the order of time.
func (b *books) timeline(s slot) string {
	var events []event
	add := func(at time.Time, who, format string, args ...any) {
		events = append(events, event{at.UTC(), who, fmt.Sprintf(format, args...)})
	}
	for _, o := range b.ops {
		if o.slot == s {
			who := fmt.Sprintf("client %d", o.client)
			add(o.called, who, "%s at %s over %s …", o.act, o.server, o.face)
			add(o.returned, who, "… after %d ms from %s: %s", o.returned.Sub(o.called).Milliseconds(), o.server, o.answer)
		}
	}
	for _, r := range b.audit {
		if r.slot == s {
			add(r.at, "MySQL", "%s by %s (connection %d, begun %s): %s → %s", r.op, r.writer, r.conn, r.began.Format(clock), r.old, r.now)
		}
	}
	payment := ""
	for _, k := range b.keys {
		if k.slot == s {
			payment = k.payment
		}
	}
	for _, c := range b.charges {
		if c.Metadata["payment_id"] == payment && payment != "" {
			add(c.CreatedAt, "PSP", "charge %s made, %d %s, key %s", c.ID, c.Amount, c.Currency, c.IdempotencyKey)
			add(c.UpdatedAt, "PSP", "charge %s is %s", c.ID, c.Status)
		}
	}
	slices.SortStableFunc(events, func(x, y event) int { return x.at.Compare(y.at) })
	p := b.purchases[s]
	var out strings.Builder
	fmt.Fprintf(&out, "user %d, key %s: order %s, %d %s, %s, payment %s\n", s.user, s.key, p.order, p.amount, p.currency, p.token, payment)
	for _, e := range events {
		fmt.Fprintf(&out, "  %s  %-10s  %s\n", e.at.Format(clock), e.who, e.what)
	}
	return out.String()
}

// paper is written on until the first error.
type paper struct {
	w   io.Writer
	err error
}

func (p *paper) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}
