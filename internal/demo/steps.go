package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"chargeonce/internal/rig"
)

// fault makes the PSP do something wrong with this story's order.
func (s *story) fault(what string, rule rig.Rule) {
	s.step(func(ctx context.Context) error {
		rule.Match.OrderID = s.order
		faults := s.calm
		faults.Rules = []rig.Rule{rule}
		s.tell("PSP", "%s", what)
		return s.trouble(ctx, faults)
	})
}

// noFaults lets the PSP work as it should.
func (s *story) noFaults() {
	s.step(func(ctx context.Context) error {
		s.tell("PSP", "works as it should again")
		return s.trouble(ctx, s.calm)
	})
}

// webhookFirst makes the PSP deliver its event to a server, and wait for the server's answer, before it answers the charge.
func (s *story) webhookFirst(to door) {
	s.step(func(ctx context.Context) error {
		s.tell("PSP", "will send its webhook to %s before it answers the charge", to.name)
		return errors.Join(s.psp.SetWebhookURL(ctx, to.server.WebhookURL()),
			s.trouble(ctx, rig.Faults{Webhooks: &rig.WebhookFaults{Early: true}}))
	})
}

// awaitCharge waits until the PSP has charged the order.
func (s *story) awaitCharge() {
	s.step(func(ctx context.Context) error {
		return s.until(ctx, "the charge", func() (bool, error) {
			charges, err := s.psp.ChargesOf(ctx, s.order)
			if len(charges) > 0 {
				s.tell("PSP", "charged: %s", charges[0].ID)
			}
			return len(charges) > 0, err
		})
	})
}

// awaitPSPAtWork waits until a request has reached the PSP. Nobody but this story asks it for anything.
func (s *story) awaitPSPAtWork() {
	s.step(func(ctx context.Context) error {
		return s.until(ctx, "a request at the PSP", func() (bool, error) {
			stats, err := s.psp.Stats(ctx)
			return stats.InFlight > 0, err
		})
	})
}

func (s *story) kill(at door) {
	s.step(func(context.Context) error {
		s.tell("kill -9", "server %s (pid %d)", at.name, at.server.PID())
		return at.server.Kill()
	})
}

func (s *story) freeze(at door) {
	s.step(func(context.Context) error {
		s.tell("kill -STOP", "server %s (pid %d)", at.name, at.server.PID())
		return at.server.Freeze()
	})
}

// thaw wakes a server, and remembers how far its log was.
func (s *story) thaw(at door) {
	s.step(func(context.Context) error {
		size, err := at.server.LogSize()
		if err != nil {
			return err
		}
		s.thawedAt = size
		s.tell("kill -CONT", "server %s wakes", at.name)
		return at.server.Thaw()
	})
}

// awaitFenced waits until the woken server has tried to write under its old lease, and been told that it has lost it: it learns
// that in its finish or, when it woke too late to read the PSP's answer, in its release.
func (s *story) awaitFenced(at door) {
	s.step(func(ctx context.Context) error {
		return at.server.Await(ctx, "its late write", func(context.Context) (bool, error) {
			text, err := at.server.Log(s.thawedAt)
			if err != nil || !lostLease(text) {
				return false, err
			}
			s.tell(at.name, "tries to write under lease 1; the row says lease 2: nothing is written")
			return true, nil
		})
	})
}

// lostLease looks for the line in which a server logs that its first lease was lost.
func lostLease(log []byte) bool {
	for lines := bufio.NewScanner(bytes.NewReader(log)); lines.Scan(); {
		var line struct {
			Msg   string `json:"msg"`
			Lease int64  `json:"lease"`
			Error string `json:"error"`
		}
		if json.Unmarshal(lines.Bytes(), &line) != nil || line.Lease != 1 {
			continue // something else than a line of ours
		}
		if strings.HasPrefix(line.Msg, "fenced:") || strings.Contains(line.Error, "the lease was lost") {
			return true
		}
	}
	return false
}

// awaitReleased waits until the server has given up on the PSP, and the key free.
func (s *story) awaitReleased() {
	s.step(func(ctx context.Context) error {
		return s.until(ctx, "the release of the key", func() (bool, error) {
			free, err := s.released(ctx, s.key)
			if free {
				s.tell("one", "gives up on the PSP's answer and releases the key: the outcome is unknown to all but the PSP")
			}
			return free, err
		})
	})
}

// expectRows checks the number of payment rows in the middle of a story.
func (s *story) expectRows(n int) {
	s.step(func(ctx context.Context) error {
		rows, err := s.rows(ctx, s.order)
		if err != nil {
			return err
		}
		s.tell("MySQL", "%d payment rows for the order", rows)
		s.expect("rows before", fmt.Sprint(n), fmt.Sprint(rows))
		return nil
	})
}

// reconcile runs one pass.
func (s *story) reconcile() {
	s.step(func(ctx context.Context) error {
		s.tell("cron", "chargeonce reconcile")
		out, code, err := s.rig.Command(ctx, s.psp, "reconcile", "--grace", "0s", "--output", "json")
		if err != nil {
			return err
		}
		var report struct {
			Stuck struct{ Charged int }
		}
		if err := json.Unmarshal([]byte(out), &report); err != nil {
			return fmt.Errorf("the report of reconcile: %w: %q", err, out)
		}
		s.tell("reconcile", "asks the PSP by key, finds the charge, finishes the purchase; exit status %d", code)
		s.expect("reconciled", "1 charged, exit status 0", fmt.Sprintf("%d charged, exit status %d", report.Stuck.Charged, code))
		return nil
	})
}

// expectWebhookBeforeAnswer checks that the event had been applied when the key was finished.
func (s *story) expectWebhookBeforeAnswer() {
	s.step(func(ctx context.Context) error {
		lead, state, err := s.webhookLead(ctx, s.order, s.key)
		if err != nil {
			return err
		}
		s.tell("MySQL", "the webhook: %s, %d ms before the answer was recorded", state, lead.Milliseconds())
		got := state + ", first"
		if lead < 0 {
			got = state + ", last"
		}
		s.expect("webhook", "applied, first", got)
		return nil
	})
}

// until looks at a condition until it holds.
func (s *story) until(ctx context.Context, what string, check func() (bool, error)) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := check()
		if ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("demo: waiting for %s: %w", what, ctx.Err())
		}
	}
}

// lookBound bounds finding out what came of a story.
const lookBound = 10 * time.Second

// look finds out what came of the story, however it ended.
func (s *story) look() found {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), lookBound)
	defer cancel()
	f := found{payments: len(s.paidIDs)}
	for _, sent := range s.sent {
		f.answers = append(f.answers, sent.text)
	}
	if s.psp != nil {
		if charges, err := s.psp.ChargesOf(ctx, s.order); err != nil {
			s.fail(err)
		} else {
			n := len(charges)
			f.charges = &n
		}
	}
	if rows, err := s.rows(ctx, s.order); err != nil {
		s.fail(err)
	} else {
		f.rows = &rows
	}
	if s.db != nil {
		if key, err := s.keyState(ctx, s.key); err != nil {
			s.fail(err)
		} else {
			f.key = &key
		}
	}
	return f
}
