package server

import "testing"

func TestAPublicNameIsNoNameForTheAdminPort(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"127.0.0.1:9091": true, "[::1]:9091": true, "10.1.2.3": true, "localhost:9091": true, "server-1:9091": true,
		"rebound.example:9091": false, "rebound.example": false, "127.0.0.1.rebound.example:9091": false,
	} {
		if got := privateName(host); got != want {
			t.Errorf("%s: %t, want %t", host, got, want)
		}
	}
}
