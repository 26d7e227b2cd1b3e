package server

import (
	"testing"
	"time"
)

func TestPreferredWait(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		values []string
		want   time.Duration
	}{
		{"none", nil, 0},
		{"alone", []string{"wait=10"}, 10 * time.Second},
		{"in another case, with space", []string{" WAIT = 10 "}, 10 * time.Second},
		{"quoted", []string{`wait="10"`}, 10 * time.Second},
		{"among others", []string{"respond-async, wait=10; x=1, handling=lenient"}, 10 * time.Second},
		{"in another header", []string{"return=minimal", "wait=10"}, 10 * time.Second},
		{"twice: the first counts", []string{"wait=10, wait=20", "wait=30"}, 10 * time.Second},
		{"twice, the first malformed: it still counts", []string{"wait=soon, wait=20"}, 0},
		{"a comma within quotes", []string{`x="a, wait=5", wait=10`}, 10 * time.Second},
		{"a quote within quotes", []string{`x="a\", wait=5", wait=10`}, 10 * time.Second},
		{"as a parameter of another", []string{"foo; wait=10"}, 0},
		{"longer than any deadline", []string{"wait=86401"}, longestWait},
		{"a number without end", []string{"wait=99999999999999999999999"}, longestWait},
		{"zero", []string{"wait=0"}, 0},
		{"no value", []string{"wait"}, 0},
		{"an empty value", []string{`wait=""`}, 0},
		{"negative", []string{"wait=-1"}, 0},
		{"signed", []string{"wait=+1"}, 0},
		{"a fraction", []string{"wait=1.5"}, 0},
		{"a unit", []string{"wait=10s"}, 0},
		{"a digit group", []string{"wait=1_0"}, 0},
		{"a quote that does not close", []string{`wait="10`}, 0},
		{"another name", []string{"await=10"}, 0},
	}
	for _, tt := range tests {
		if got := preferredWait(tt.values); got != tt.want {
			t.Errorf("%s: %q: %v, want %v", tt.name, tt.values, got, tt.want)
		}
	}
}

// FuzzPrefer: whatever is preferred, the wait is whole seconds within bounds.
func FuzzPrefer(f *testing.F) {
	for _, s := range []string{"wait=10", `wait="10"`, `a="\`, ",;=", "wait=1, wait=2", "respond-async; wait=9"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if got := preferredWait([]string{value}); got < 0 || got > longestWait || got%time.Second != 0 {
			t.Fatalf("%q: %v", value, got)
		}
	})
}
