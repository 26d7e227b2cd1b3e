package server

import (
	"errors"
	"math"
	"testing"
	"time"
)

func TestParseTimeout(t *testing.T) {
	t.Parallel()
	tests := []struct {
		values []string
		want   time.Duration
		ok     bool
		bad    bool
	}{
		{nil, 0, false, false},
		{[]string{"1H"}, time.Hour, true, false},
		{[]string{"2M"}, 2 * time.Minute, true, false},
		{[]string{"10S"}, 10 * time.Second, true, false},
		{[]string{"1500m"}, 1500 * time.Millisecond, true, false},
		{[]string{"7u"}, 7 * time.Microsecond, true, false},
		{[]string{"0n"}, 0, true, false},
		{[]string{"99999999n"}, 99999999, true, false},
		{[]string{"99999999H"}, 24 * time.Hour, true, false}, // would overflow
		{[]string{""}, 0, false, true},
		{[]string{"S"}, 0, false, true},
		{[]string{"5"}, 0, false, true},
		{[]string{"5s"}, 0, false, true},
		{[]string{"5 S"}, 0, false, true},
		{[]string{"+5S"}, 0, false, true},
		{[]string{"-5S"}, 0, false, true},
		{[]string{"1.5S"}, 0, false, true},
		{[]string{"0x5S"}, 0, false, true},
		{[]string{"123456789S"}, 0, false, true},
		{[]string{"5S", "5S"}, 0, false, true},
		{[]string{"5S,5S"}, 0, false, true},
	}
	for _, tt := range tests {
		got, ok, err := parseTimeout(tt.values)
		var p *problem
		if got != tt.want || ok != tt.ok || errors.As(err, &p) != tt.bad {
			t.Errorf("parseTimeout(%q) = %v, %t, %v; want %v, %t, bad %t", tt.values, got, ok, err, tt.want, tt.ok, tt.bad)
		}
	}
}

func FuzzParseTimeout(f *testing.F) {
	f.Add("5S")
	f.Add("99999999H")
	f.Fuzz(func(t *testing.T, s string) {
		d, ok, err := parseTimeout([]string{s})
		if ok == (err != nil) || d < 0 || d > 24*time.Hour {
			t.Errorf("parseTimeout(%q) = %v, %t, %v", s, d, ok, err)
		}
	})
}

func TestDeadlines(t *testing.T) {
	t.Parallel()
	now := time.Now()
	d := deadlines{def: 10 * time.Second, max: 30 * time.Second}
	for _, tt := range []struct{ asked, want time.Time }{
		{time.Time{}, now.Add(10 * time.Second)},
		{now.Add(time.Second), now.Add(time.Second)},
		{now.Add(30 * time.Second), now.Add(30 * time.Second)},
		{now.Add(31 * time.Second), now.Add(30 * time.Second)},
		{now.Add(math.MaxInt64), now.Add(30 * time.Second)},
		{now.Add(-time.Second), now.Add(-time.Second)}, // over already, and told so by whoever looks
	} {
		if got := d.at(now, tt.asked); !got.Equal(tt.want) {
			t.Errorf("asked for %v from now: %v from now, want %v", tt.asked.Sub(now), got.Sub(now), tt.want.Sub(now))
		}
	}
}
