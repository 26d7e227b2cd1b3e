package lab

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestPoolTurnsAwayWhenItIsFullForTooLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := make(pool, 1)
		if !p.enter(t.Context()) {
			t.Fatal("the first call found no place")
		}
		began := time.Now()
		if p.enter(t.Context()) || time.Since(began) != poolWait {
			t.Errorf("the second call was let in, or turned away after %v", time.Since(began))
		}
		p.leave()
		if !p.enter(t.Context()) {
			t.Error("a place that was left is not free")
		}
		left, cancel := context.WithCancel(t.Context())
		cancel()
		if p.enter(left) {
			t.Error("a caller that has left was let in")
		}
		if none := pool(nil); !none.enter(t.Context()) {
			t.Error("without a pool a call was turned away")
		}
	})
}
