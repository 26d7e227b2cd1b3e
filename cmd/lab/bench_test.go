package main

import (
	"strings"
	"testing"
)

func TestBenchmarkThatCannotBeMadeIsAFailure(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		args []string
		says string
	}{
		"no binaries beside it": {[]string{"bench", "--quick"}, "--"},
		"no keys":               {[]string{"bench", "--keys", "10000,0", "--chargeonce", binary, "--gateway-sim", binary}, "--keys 0: want 1 to "},
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
