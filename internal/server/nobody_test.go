package server_test

import (
	"net"
	"testing"
)

// nobody returns an address that refuses connections since its port was free a moment ago.
func nobody(t *testing.T) string {
	t.Helper()
	var lc net.ListenConfig
	lis, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := lis.Close(); err != nil {
		t.Fatal(err)
	}
	return lis.Addr().String()
}
