package main

import (
	"strings"
	"testing"
)

func TestExperimentsAreListed(t *testing.T) {
	t.Parallel()
	out, code := lab(t, "list")
	for _, name := range []string{"breaker", "healthy-slow", "amplification", "bulkhead", "deadline", "lost-answers", "timeout"} {
		if !strings.Contains(out, "\n  "+name+" ") {
			t.Errorf("%s is missing", name)
		}
	}
	if code != 0 {
		t.Errorf("exit status %d:\n%s", code, out)
	}
}

func TestExperimentThatCannotBeMadeIsAFailure(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		args []string
		says string
	}{
		"no such experiment":    {[]string{"proof", "--only", "nope"}, `no experiment "nope"; it has amplification, breaker, `},
		"no binaries beside it": {[]string{"proof", "--small"}, "--"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if out, code := lab(t, tt.args...); code != 1 || !strings.Contains(out, tt.says) {
				t.Errorf("exit status %d, want 1 and %q:\n%s", code, tt.says, out)
			}
		})
	}
}
