package lab

import "testing"

func TestTriesMultiply(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		layers, tries int
		want          int64
	}{{3, 4, 64}, {1, 4, 4}, {4, 3, 81}, {5, 3, 243}, {0, 3, 1}} {
		if got := multiplied(tt.layers, tt.tries); got != tt.want {
			t.Errorf("%d layers of %d tries: %d, want %d", tt.layers, tt.tries, got, tt.want)
		}
	}
}
