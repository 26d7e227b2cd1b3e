package reconcile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// WriteJSON writes the report as one JSON object on one line.
func (r Report) WriteJSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

// WriteTable writes the report as a table for a person, the findings below it.
func (r Report) WriteTable(w io.Writer) error {
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	if _, err := t.Write(r.rows()); err != nil {
		return err
	}
	if err := t.Flush(); err != nil {
		return err
	}
	took := time.Duration(r.DurationMS) * time.Millisecond
	out := fmt.Appendf(nil, "%s at %s, took %s%s\n", r.ID, r.StartedAt.Format(time.RFC3339), took, r.notes())
	out = append(out, b.Bytes()...)
	for _, f := range r.Findings {
		out = fmt.Appendf(out, "  %s: user %d, payment %s, charge %s: %s\n", f.Kind, f.UserID, orDash(f.PaymentID), orDash(f.ChargeID), f.Detail)
	}
	if more := r.Found - len(r.Findings); more > 0 {
		out = fmt.Appendf(out, "  and %d more, in the log\n", more)
	}
	_, err := w.Write(out)
	return err
}

// rows gives a line per phase: its name, how many, and what became of them, divided by tabs.
func (r Report) rows() []byte {
	s, e := r.Stuck, r.Events
	oldest := time.Duration(s.OldestMS) * time.Millisecond
	b := fmt.Appendf(nil, "stuck keys\t%d\tcharged %d, refused %d, abandoned %d, parked %d; left: too young %d, unknown %d, to others %d; oldest %s\n",
		s.Seen, s.Charged, s.Refused, s.Abandoned, s.Parked, s.TooYoung, s.Unknown, s.Other, oldest)
	b = fmt.Appendf(b, "pending charges\t%d\tchanged %d, still pending %d, unknown %d\n",
		r.Pending.Asked, r.Pending.Changed, r.Pending.Still, r.Pending.Unknown)
	b = fmt.Appendf(b, "statement\t%d\twritten %d, raised %d; done up to %s\n",
		r.Statement.Read, r.Statement.Written, r.Statement.Raised, r.Statement.upTo())
	b = fmt.Appendf(b, "events retried\t%d\tapplied %d, failed %d, set aside %d; waiting now %d\n",
		e.Applied+e.Failed+e.Died, e.Applied, e.Failed, e.Died, e.Waiting)
	b = fmt.Appendf(b, "purged\t%d\tkeys %d, events %d; compacted %d\n", r.Purged.Keys+r.Purged.Events, r.Purged.Keys, r.Purged.Events, r.Purged.Compacted)
	return fmt.Appendf(b, "NEEDS A PERSON\t%d\tparked keys %d, dead events %d, charged after refusal %d, found in this pass %d\n",
		r.NeedsPerson, r.Parked, e.Dead, e.ChargedAfterRefusal, r.Found)
}

func (r Report) notes() string {
	s := ""
	if r.DryRun {
		s += "; DRY RUN, nothing was changed"
	}
	if r.PSPDown {
		s += "; THE PSP WAS DOWN, what needs it was left"
	}
	if r.Stopped {
		s += "; stopped before the end"
	}
	return s
}

func (s Statement) upTo() string {
	if s.Mark.IsZero() {
		return "nothing yet"
	}
	return s.Mark.Format(time.RFC3339)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
