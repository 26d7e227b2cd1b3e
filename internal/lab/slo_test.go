package lab

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBurnAlertsAreMadeForTheirShareOfTheBudget(t *testing.T) {
	t.Parallel()
	var got []int64
	var names []string
	for _, a := range burnAlerts(9950) {
		got, names = append(got, a.budgetPerMille()), append(names, a.name)
	}
	if diff := cmp.Diff([]int64{20, 50, 100, 100}, got); diff != "" {
		t.Errorf("of 1,000 (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"14.4×, 1 h + 5 min", "6×, 6 h + 30 min", "3×, 1 d + 2 h", "1×, 3 d + 6 h"}, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

// steady is a month of 1,000 requests a minute, of which so many fail in the minutes of a stretch and none otherwise.
func steady(failed int64, from, to int) *month {
	m := &month{}
	for minute := range monthMinutes {
		m.total[minute+1], m.failed[minute+1] = m.total[minute]+1000, m.failed[minute]
		if minute >= from && minute < to {
			m.failed[minute+1] += failed
		}
	}
	return m
}

func TestAlertFiresAboveItsRateInBothWindowsAndNotAtIt(t *testing.T) {
	t.Parallel()
	page := burnAlerts(9950)[0] // 14.4 × 0.5 % = 7.2 %, over an hour and over 5 minutes
	tests := []struct {
		name     string
		failed   int64
		from, to int
		firings  []int
	}{
		{"exactly the rate, for ever", 72, 0, monthMinutes, nil},
		{"a little more, for ever", 73, 0, monthMinutes, []int{5}},
		{"all fail: the long window holds 72 of 1,000 after 4.32 minutes", 1000, 600, 660, []int{605}},
		{"too short for the long window", 1000, 600, 604, nil},
		{"a rate that fills it after 36 minutes", 120, 600, 700, []int{637}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.firings, page.firings(steady(tt.failed, tt.from, tt.to))); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.name, diff)
		}
	}
	// The short window ends it: 5 minutes after the last failure at the latest, the long one would take an hour.
	if m := steady(1000, 600, 660); !page.on(m, 664) || page.on(m, 665) {
		t.Error("the alert does not end with the short window")
	}
}

func TestFiringIsAboutTheIncidentWhoseTimeItFallsIn(t *testing.T) {
	t.Parallel()
	a := alert{long: 60, short: 5}
	in := incident{start: 100, ends: 110}
	for minute, want := range map[int]bool{100: false, 101: true, 110: true, 114: true, 115: false} {
		if got := a.tells(in, minute); got != want {
			t.Errorf("minute %d: %t", minute, got)
		}
	}
	if after, ok := a.told(in, []int{50, 104, 112}); after != 4 || !ok {
		t.Errorf("told after %d, %t", after, ok)
	}
	if _, ok := a.told(in, []int{50, 300}); ok {
		t.Error("told of an incident at another time")
	}
}

func TestBinomialDrawsItsShare(t *testing.T) {
	t.Parallel()
	draw := rand.New(rand.NewPCG(1, 1))
	for _, tt := range []struct{ n, num, den, least, most int64 }{
		{1000, 0, 100, 0, 0},
		{1000, 100, 100, 1000, 1000},
		{0, 50, 100, 0, 0},
		{1_000_000, 3, 1000, 2700, 3300},
		{1_000_000, 600, 1000, 597_000, 603_000},
	} {
		if got := binomial(draw, tt.n, tt.num, tt.den); got < tt.least || got > tt.most {
			t.Errorf("%d × %d/%d: %d", tt.n, tt.num, tt.den, got)
		}
	}
}

func TestMonthIsTheSameForOneSeed(t *testing.T) {
	t.Parallel()
	draw := func(seed uint64) *month { return newMonth(sloDefault, rand.New(rand.NewPCG(seed, 0))) }
	one, again, other := draw(1), draw(1), draw(2)
	if one.failed != again.failed || one.failed == other.failed {
		t.Error("want the same month for the same seed, and another one for another")
	}
	if total, _ := one.window(monthMinutes, monthMinutes); total != one.requests() {
		t.Errorf("the window of the whole month holds %d of %d requests", total, one.requests())
	}
	if total, failed := one.window(3, 60); total != one.total[3] || failed != one.failed[3] {
		t.Error("a window that begins before the month holds more than the month")
	}
}

func TestRelationsHoldForManySeeds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		r, err := sloExperiment.Run(t.Context(), Env{}, Options{Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range r.Missed(true) {
			t.Errorf("seed %d: %v", seed, c)
		}
	}
}

func TestMinutesAreWorded(t *testing.T) {
	t.Parallel()
	for minutes, want := range map[int]string{5: "5 min", 60: "1 h", 90: "1.5 h", 172: "2.8 h", 1440: "1 d", 1800: "30 h", 5760: "4 d"} {
		if got := spanOf(minutes); got != want {
			t.Errorf("%d minutes: %q, want %q", minutes, got, want)
		}
	}
	if got := percentOf(1, 3) + percentOf(9950, 10_000); got != "33.3 %99.5 %" {
		t.Errorf("%q", got)
	}
}
