package gatewaysim

import (
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestLatencyDistributions(t *testing.T) {
	t.Parallel()
	draw := func(l Latency) []time.Duration {
		random := rand.New(rand.NewPCG(1, 2))
		all := make([]time.Duration, 100_000)
		for i := range all {
			all[i] = l.draw(random)
		}
		slices.Sort(all)
		return all
	}
	near := func(got, want time.Duration) bool { return got > want*9/10 && got < want*11/10 }

	all := draw(Lognormal(80*time.Millisecond, 1200*time.Millisecond))
	if p50, p999 := all[50_000], all[99_900]; !near(p50, 80*time.Millisecond) || !near(p999, 1200*time.Millisecond) {
		t.Errorf("log-normal: p50 %v, p99.9 %v", p50, p999)
	}
	all = draw(Uniform(10*time.Millisecond, 20*time.Millisecond))
	if all[0] < 10*time.Millisecond || all[99_999] > 20*time.Millisecond || !near(all[50_000], 15*time.Millisecond) {
		t.Errorf("uniform: %v, %v, %v", all[0], all[50_000], all[99_999])
	}
	all = draw(Fixed(time.Second))
	if all[0] != time.Second || all[99_999] != time.Second {
		t.Errorf("fixed: %v to %v", all[0], all[99_999])
	}
	if got := (Latency{}).draw(rand.New(rand.NewPCG(1, 2))); got != 0 {
		t.Errorf("no latency takes %v", got)
	}
}

func TestLatencyTextForms(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Latency{
		"":                              {},
		"fixed 50ms":                    Fixed(50 * time.Millisecond),
		"uniform 10ms 100ms":            Uniform(10*time.Millisecond, 100*time.Millisecond),
		"lognormal p50 80ms p99.9 1.2s": Lognormal(80*time.Millisecond, 1200*time.Millisecond),
	} {
		var got Latency
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want || got.String() != text {
			t.Errorf("%q reads as %v (error %v), want %v", text, got, err, want)
		}
	}
}

func TestJitterStaysNearTheSchedule(t *testing.T) {
	t.Parallel()
	var low, high bool
	for range 1000 {
		got := jitter(100*time.Second, 10)
		if got < 9*time.Second || got > 11*time.Second {
			t.Fatalf("10 s became %v", got)
		}
		low, high = low || got < 9500*time.Millisecond, high || got > 10500*time.Millisecond
	}
	if !low || !high {
		t.Error("there is no jitter")
	}
	if got := jitter(0, 1); got != 0 {
		t.Errorf("at once became %v", got)
	}
}

func TestWindow(t *testing.T) {
	t.Parallel()
	second := Duration(time.Second)
	for _, tt := range []struct {
		window  Window
		elapsed time.Duration
		want    bool
	}{
		{Window{}, 0, true},
		{Window{}, time.Hour, true},
		{Window{After: second}, time.Second - 1, false},
		{Window{After: second}, time.Second, true},
		{Window{For: second}, time.Second - 1, true},
		{Window{For: second}, time.Second, false},
		{Window{After: second, For: second}, 2*time.Second - 1, true},
		{Window{After: second, For: second}, 2 * time.Second, false},
	} {
		if got := tt.window.holds(tt.elapsed); got != tt.want {
			t.Errorf("%+v after %v: %v, want %v", tt.window, tt.elapsed, got, tt.want)
		}
	}
}

// The throws of a rule depend on the seed, its place and the order of its requests, not on the rules beside it.
func TestSeededThrows(t *testing.T) {
	t.Parallel()
	throws := func(f Faults) string {
		fs := newFaultSet(f)
		var b strings.Builder
		for range 1000 {
			if fs.planRequest(subject{}, Latency{}).lose != nil {
				b.WriteByte('x')
			} else {
				b.WriteByte('.')
			}
		}
		return b.String()
	}
	lose := Rule{Fault: LoseAnswer, Rate: new(0.3)}
	first := throws(Faults{Seed: 7, Rules: []Rule{lose}})
	if n := strings.Count(first, "x"); n < 250 || n > 350 {
		t.Errorf("%d of 1000 were struck at a rate of 0.3", n)
	}
	if throws(Faults{Seed: 7, Rules: []Rule{lose}}) != first {
		t.Error("the same seed throws differently")
	}
	if throws(Faults{Seed: 7, Rules: []Rule{lose, {Fault: WrongAmount, Rate: new(0.5)}}}) != first {
		t.Error("a second rule changes the throws of the first")
	}
	if throws(Faults{Seed: 8, Rules: []Rule{lose}}) == first {
		t.Error("another seed throws the same")
	}
}

func TestIDsOfAnotherFileAreUnknown(t *testing.T) {
	t.Parallel()
	a, b := &store{fileID: "aaaaaaaa"}, &store{fileID: "bbbbbbbb"}
	id := a.newID(chargePrefix, 258)
	if seq, ok := a.parseID(chargePrefix, id); !ok || seq != 258 {
		t.Errorf("%s is %d, %v", id, seq, ok)
	}
	if _, ok := b.parseID(chargePrefix, id); ok {
		t.Errorf("%s belongs to another file", id)
	}
	for _, bad := range []string{"", "ch_", id + "00", id[:len(id)-1], "ch_aaaaaaaa000000000000010G", "ch_aaaaaaaa00000000000001AB", "evt" + id[2:]} {
		if _, ok := a.parseID(chargePrefix, bad); ok {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// A forced delivery that fails moves an event on in its schedule; the try that was planned before it must not come too.
func TestOutdatedDeliveryIsVoid(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(receiver.Close)
	s := Start(t, Config{WebhookSchedule: []time.Duration{0, time.Hour, time.Hour, time.Hour}})
	c := &call{r: httptest.NewRequest(http.MethodPost, "/charges", http.NoBody), charge: chargeRequest{Amount: 1, Currency: "EUR", PaymentMethod: "tok_visa"}}
	c.key = "k"
	if a := s.workCharge(c); a.status != http.StatusCreated || len(c.events) != 1 {
		t.Fatalf("answer %+v, events %+v", a, c.events)
	}
	seq := c.events[0].seq
	s.webhooks.setURL(receiver.URL) // the loop has nothing to do: the event was not published
	for _, step := range []struct {
		attempt int
		want    int64
	}{{0, 1}, {0, 1}, {1, 2}, {1, 2}, {0, 2}, {2, 3}} {
		s.webhooks.deliver(delivery{seq: seq, attempt: step.attempt})
		if got := requests.Load(); got != step.want {
			t.Fatalf("after try %d: %d requests, want %d", step.attempt, got, step.want)
		}
	}
}

// A repetition that overtakes the event's own delivery does not take its place.
func TestExtraDeliveryIsBesideTheEventsOwn(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	t.Cleanup(receiver.Close)
	s := Start(t, Config{})
	c := &call{charge: chargeRequest{Amount: 1, Currency: "EUR", PaymentMethod: "tok_visa"}}
	c.key = "k"
	s.workCharge(c)
	seq := c.events[0].seq
	s.webhooks.setURL(receiver.URL) // the loop has nothing to do: the event was not published
	for i, step := range []struct {
		extra bool
		state string
	}{{true, eventQueued}, {false, eventDelivered}, {true, eventDelivered}} {
		s.webhooks.deliver(delivery{seq: seq, extra: step.extra})
		if _, rec, _ := s.store.eventAt(seq); requests.Load() != int64(i+1) || rec.State != step.state {
			t.Errorf("after delivery %d: %d requests, the event is %s, want %s", i+1, requests.Load(), rec.State, step.state)
		}
	}
}

func TestTimesOfCreationRiseThoughTheClockDoesNot(t *testing.T) {
	t.Parallel()
	newest := time.Now().Add(time.Hour).Truncate(time.Microsecond)
	s := &store{lastCreated: newest}
	for i := range 3 {
		if got, want := s.now(), newest.Add(time.Duration(i+1)*time.Microsecond); !got.Time.Equal(want) {
			t.Errorf("charge %d is of %v, want %v", i, got, want)
		}
	}
}
