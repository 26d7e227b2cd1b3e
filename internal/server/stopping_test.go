package server_test

import (
	"net"
	"net/http"
	"testing"
	"time"

	"chargeonce/internal/server"
)

// answers reports whether somebody listens at an address.
func (e *env) answers(addr string) bool {
	e.t.Helper()
	conn, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		return false
	}
	if err := conn.Close(); err != nil {
		e.t.Error(err)
	}
	return true
}

// While requests under way end, both faces take no connection any more, and the admin port still tells how it stands: it is the
// last to go.
func TestStoppingClosesTheFacesFirstAndTheAdminPortLast(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{server: server.Config{DrainTimeout: 30 * time.Second}})
	e.hangingPSP()
	underWay := make(chan outcome, 1)
	go func() {
		underWay <- e.send(overREST, sending{keys: []string{unique("k")}, timeout: 20 * time.Second, message: purchase(unique("o"))})
	}()
	e.until("it is at the PSP", func() bool { return e.sim.Stats().Hung == 1 })
	stopped := make(chan error, 1)
	go func() { stopped <- e.stop() }()

	e.until("both faces are closed", func() bool { return !e.answers(e.addrs.REST) && !e.answers(e.addrs.GRPC) })
	for path, want := range map[string]int{"/readyz": http.StatusServiceUnavailable, "/healthz": http.StatusOK} {
		if got, _ := e.adminStatus(http.MethodGet, path, nil); got != want {
			t.Errorf("admin %s: %d, want %d", path, got, want)
		}
	}
	select {
	case err := <-stopped:
		t.Errorf("it stopped before the request under way had ended: %v", err)
	default:
	}
	if err := e.sim.ClearFaults(); err != nil { // which answers it
		t.Fatal(err)
	}
	if got := <-underWay; got.Payment == nil {
		t.Errorf("the request under way: %+v", got)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if e.answers(e.addrs.Admin) {
		t.Error("the admin port still answers")
	}
}
