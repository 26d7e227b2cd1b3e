package lab

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chargeonce/internal/mysql"
)

func TestACrashLeavesWhatWasCommittedAndNothingElse(t *testing.T) {
	t.Parallel()
	err := testEnv.withDatabase(t.Context(), func(s *site) error {
		if err := createTables(t.Context(), s.db.DB, "CREATE TABLE notes (id VARCHAR(16) PRIMARY KEY)"); err != nil {
			return err
		}
		after := false
		crashed, err := s.live(t.Context(), func(l *life) error {
			if err := l.exec(t.Context(), "INSERT INTO notes (id) VALUES ('committed')"); err != nil {
				return err
			}
			err := mysql.WithTx(t.Context(), l.db, func(tx mysql.Querier) error {
				if _, err := tx.ExecContext(t.Context(), "INSERT INTO notes (id) VALUES ('open')"); err != nil {
					return err
				}
				return l.crash(t.Context())
			})
			after = errors.Is(err, errCrashed)
			return err
		})
		if err != nil || !crashed || !after {
			t.Errorf("crashed %t, by its own transaction %t, %v", crashed, after, err)
		}
		// The INSERT waits until the server has rolled the killed transaction back.
		if _, err := s.db.ExecContext(t.Context(), "INSERT INTO notes (id) VALUES ('open')"); err != nil {
			t.Errorf("what was not committed is there: %v", err)
		}
		n, err := s.count(t.Context(), "SELECT COUNT(*) FROM notes WHERE id = 'committed'")
		if n != 1 {
			t.Errorf("what was committed is there %d times", n)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestLivesGoOnUntilOneDoesNotCrash(t *testing.T) {
	t.Parallel()
	err := testEnv.withDatabase(t.Context(), func(s *site) error {
		lives := 0
		err := s.liveOn(t.Context(), 5, func(n int, l *life) error {
			lives++
			if n < 2 {
				return l.crash(t.Context())
			}
			return nil
		})
		if lives != 3 {
			t.Errorf("%d lives, want 3", lives)
		}
		errBroken := errors.New("broken")
		if got := s.liveOn(t.Context(), 5, func(int, *life) error { return errBroken }); !errors.Is(got, errBroken) {
			t.Errorf("got %v, want an error that is no crash", got)
		}
		always := func(_ int, l *life) error { return l.crash(t.Context()) }
		if got := s.liveOn(t.Context(), 2, always); got == nil {
			t.Error("a worker that crashed in every life is no error")
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAPartitionDeliversAgainWhatIsBehindTheOffset(t *testing.T) {
	t.Parallel()
	var p partition
	for _, id := range []string{"e1", "e2", "e3"} {
		p.publish(pointsEvent{id: id})
	}
	p.commit(1)
	want := []pointsEvent{{id: "e2"}, {id: "e3"}}
	for range 2 {
		if diff := cmp.Diff(want, p.pending(), cmp.AllowUnexported(pointsEvent{})); diff != "" {
			t.Error(diff)
		}
	}
}

func TestPermutationsAreAllOrders(t *testing.T) {
	t.Parallel()
	want := [][]int{{2, 1, 0}, {1, 2, 0}, {1, 0, 2}, {2, 0, 1}, {0, 2, 1}, {0, 1, 2}}
	if diff := cmp.Diff(want, permutations(3)); diff != "" {
		t.Error(diff)
	}
}

// A relay that finds rows which another one has locked leaves them to it, and goes on when they are free.
func TestARelayLeavesToAnotherWhatThatOneHasTaken(t *testing.T) {
	t.Parallel()
	err := testEnv.withDatabase(t.Context(), func(s *site) error {
		if err := createConsumerTables(t.Context(), s.db.DB); err != nil {
			return err
		}
		p := &producer{site: s, broker: &partition{}}
		event := pointsEvent{"order-1", "outbox", 1}
		_, err := s.live(t.Context(), func(l *life) error {
			if err := intoOutbox(t.Context(), p, l, event, safely); err != nil {
				return err
			}
			return p.publishWaiting(t.Context(), l, func() error { // it holds the row now
				_, err := s.live(context.WithoutCancel(t.Context()), func(other *life) error {
					return p.publishWaiting(t.Context(), other, safely)
				})
				return err
			})
		})
		if diff := cmp.Diff([]pointsEvent{event}, p.broker.log, cmp.AllowUnexported(pointsEvent{})); diff != "" {
			t.Error(diff)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
