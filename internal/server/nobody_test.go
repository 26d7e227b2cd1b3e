package server_test

import (
	"net"
	"strconv"
	"syscall"
	"testing"
)

// nobody returns an address that refuses connections until the test ends: its port is taken, and nobody listens there.
func nobody(t *testing.T) string {
	t.Helper()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Close(socket); err != nil {
			t.Error(err)
		}
	})
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	bound, err := syscall.Getsockname(socket)
	if err != nil {
		t.Fatal(err)
	}
	local, ok := bound.(*syscall.SockaddrInet4)
	if !ok {
		t.Fatalf("bound to %T", bound)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(local.Port))
}
