package lab

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A first click that fails has left nothing, and the second one, which waits for it, does the work.
func TestInOneTransactionTheSecondClickDoesTheWorkWhenTheFirstFails(t *testing.T) {
	t.Parallel()
	err := testEnv.withDatabase(t.Context(), func(s *site) error {
		working, fail := make(chan struct{}), make(chan struct{})
		errFailed := errors.New("failed")
		first := &oneTransaction{db: s.db.DB, work: func(context.Context) error {
			close(working)
			<-fail
			return errFailed
		}}
		second := &oneTransaction{db: s.db.DB, work: func(context.Context) error { return nil }}
		if err := first.create(t.Context()); err != nil {
			return err
		}
		firstEnd := make(chan error, 1)
		go func() {
			_, err := first.pay(t.Context(), "order", clickAmount)
			firstEnd <- err
		}()
		<-working
		go close(fail) // before the second click waits or while it does: either way it gets in
		r, err := second.pay(t.Context(), "order", clickAmount)
		if !r.charged() {
			t.Errorf("the second click was told %s, want that it is charged", r)
		}
		if err := <-firstEnd; !errors.Is(err, errFailed) {
			t.Errorf("the first click ended with %v", err)
		}
		n, countErr := second.charges(t.Context(), "order")
		if n != 1 {
			t.Errorf("%d charges, want 1", n)
		}
		return errors.Join(err, countErr)
	})
	if err != nil {
		t.Error(err)
	}
}

// scripted is a way whose clicks are answered with what is in store, in the order in which they come.
func scripted(replies ...reply) (*clickWay, *[]string) {
	next := make(chan reply, len(replies))
	for _, r := range replies {
		next <- r
	}
	var orders []string
	w := &clickWay{
		pay:     func(context.Context, string, int64) (reply, error) { return <-next, nil },
		charges: func(_ context.Context, order string) (int64, error) { orders = append(orders, order); return 1, nil },
	}
	return w, &orders
}

func TestADoubleClickIsMadeAgainUntilItIsOne(t *testing.T) {
	t.Parallel()
	fresh, replay, busy := reply{status: 201}, reply{status: 201, replayed: true}, reply{status: 409}
	late, again := []reply{fresh, replay}, []reply{fresh, busy, replay, {status: 422}}
	tests := map[string]struct {
		replies []reply
		orders  []string
		second  string
	}{
		"at once":             {again, []string{"o"}, "409"},
		"at the third time":   {append(append(append([]reply{}, late...), late...), again...), []string{"o-2"}, "409"},
		"overtaken":           {[]reply{busy, fresh, replay, {status: 422}}, []string{"o"}, "409"},
		"not even at the end": {append(repeat(late, overlapTries), replay, reply{status: 422}), []string{"o-4"}, "201 replayed"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, orders := scripted(tt.replies...)
			if err := w.round(t.Context(), "o", time.Nanosecond); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.orders, *orders); diff != "" {
				t.Error(diff)
			}
			if !w.first[0].charged() || w.second[0].String() != tt.second {
				t.Errorf("first %s, second %s; want 201 and %s", w.first[0], w.second[0], tt.second)
			}
		})
	}
}

func repeat(replies []reply, n int) (out []reply) {
	for range n {
		out = append(out, replies...)
	}
	return out
}
