package lab

import (
	"testing"
	"time"
)

func TestChainWorksOnForNobodyUnlessTheDeadlineIsPassedOn(t *testing.T) {
	t.Parallel()
	n := deadlineNumbers{Requests: 3, Services: 3, Work: 150 * time.Millisecond, Patience: 250 * time.Millisecond}
	for _, p := range []passing{ownTimeout, hangUp, deadlineOn} {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			got, err := n.chain(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			if worksOn := got.last > 0; worksOn != (p == ownTimeout) {
				t.Errorf("the last service began %d times", got.last)
			}
			// The hang-up takes a moment to arrive; 15 slices are one service's work for one request.
			if worksOn := got.after >= 15; worksOn != (p == ownTimeout) {
				t.Errorf("%d slices of work after the clients left", got.after)
			}
		})
	}
}

func TestDeadlineNumbersAreChecked(t *testing.T) {
	t.Parallel()
	for _, n := range []deadlineNumbers{
		{Services: 2, Work: time.Second, Patience: 2 * time.Second, Deadline: 1, PSP: 2},
		{Services: 2, Work: time.Second, Patience: time.Second, Deadline: 2, PSP: 2},
	} {
		if n.Validate() == nil {
			t.Errorf("%+v was let through", n)
		}
	}
}
