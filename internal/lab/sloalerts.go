package lab

import "fmt"

// alert fires while more than num out of den requests fail, over the long window and over the short one. All of it is integers:
// no rounding decides whether somebody is woken.
type alert struct {
	name        string
	long, short int   // minutes
	num, den    int64 // the error rate
	burnTenths  int64 // of an alert on the burn rate: tenths of the rate at which the month's budget lasts a month
}

// burnAlerts are the multiwindow, multi-burn-rate alerts of The Site Reliability Workbook, chapter 5. The first two wake
// somebody, the others can wait for the morning.
func burnAlerts(objective int64) []alert {
	var out []alert
	for _, w := range []struct {
		tenths      int64
		long, short int
	}{
		{144, hourMinutes, 5},
		{60, 6 * hourMinutes, 30},
		{30, dayMinutes, 2 * hourMinutes},
		{10, 3 * dayMinutes, 6 * hourMinutes},
	} {
		out = append(out, alert{name: fmt.Sprintf("%s×, %s + %s", tenths(w.tenths), spanOf(w.long), spanOf(w.short)), long: w.long, short: w.short,
			num: w.tenths * (10_000 - objective), den: 10 * 10_000, burnTenths: w.tenths})
	}
	return out
}

// budgetPerMille is the share of a month's budget, out of 1,000, that is spent within the long window at just this burn rate.
func (a alert) budgetPerMille() int64 { return a.burnTenths * int64(a.long) * 100 / monthMinutes }

// on reports whether the alert is on at the beginning of a minute. Before the first short window is full it has too little to go by.
func (a alert) on(m *month, minute int) bool {
	if minute < a.short {
		return false
	}
	for _, window := range []int{a.long, a.short} {
		if total, failed := m.window(minute, window); failed*a.den <= total*a.num {
			return false
		}
	}
	return true
}

// firings are the minutes at which the alert comes on.
func (a alert) firings(m *month) []int {
	var out []int
	was := false
	for minute := range monthMinutes + 1 {
		is := a.on(m, minute)
		if is && !was {
			out = append(out, minute)
		}
		was = is
	}
	return out
}

// tells reports whether a firing is about an incident: it comes while that lasts, or while the short window still holds it.
func (a alert) tells(in incident, minute int) bool {
	return minute > in.start && minute < in.ends+a.short
}

// told is how many minutes after an incident's beginning the first of the firings comes that is about it; false if none is.
func (a alert) told(in incident, firings []int) (after int, ok bool) {
	for _, minute := range firings {
		if a.tells(in, minute) {
			return minute - in.start, true
		}
	}
	return 0, false
}

// tenths words a number of tenths.
func tenths(n int64) string {
	if n%10 == 0 {
		return fmt.Sprint(n / 10)
	}
	return fmt.Sprintf("%d.%d", n/10, n%10)
}

// spanOf words a number of minutes: whole days, hours to a tenth, or minutes.
func spanOf(minutes int) string {
	switch {
	case minutes >= dayMinutes && minutes%dayMinutes == 0:
		return fmt.Sprintf("%d d", minutes/dayMinutes)
	case minutes >= hourMinutes:
		return tenths(int64(minutes)*10/hourMinutes) + " h"
	}
	return fmt.Sprintf("%d min", minutes)
}

// percentOf words num out of den, rounded down to a tenth.
func percentOf(num, den int64) string { return tenths(1000*num/den) + " %" }
