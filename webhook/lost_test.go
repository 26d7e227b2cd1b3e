package webhook_test

import (
	"bytes"
	"database/sql"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"
	"github.com/google/go-cmp/cmp"

	"chargeonce/internal/mysql"
	"chargeonce/internal/payment"
	"chargeonce/internal/telemetry"
	"chargeonce/webhook"
)

// The answer to any statement of the transaction is lost at the network, or the statement itself is: the PSP gets its 2xx, and
// the event has had its effect once.
func TestLostAnswerOfTheDatabaseIsSettled(t *testing.T) {
	t.Parallel()
	for _, statement := range []string{"START TRANSACTION", "INSERT INTO webhook_events", "INSERT INTO payments", "COMMIT"} {
		for _, arrives := range []bool{true, false} {
			name := statement + " does not arrive"
			if arrives {
				name = statement + " is not answered"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				e := newEnv(t)
				p := e.claim()
				cut := newCutter(t, e.dsn)
				cut.arm(statement, arrives)
				db := cut.db(t)
				flow := payment.NewFlow(db, e.psp, renderer{}, payment.Timing{}, quiet())
				h, err := webhook.New(webhook.Config{DB: db, Flow: flow, Secrets: []telemetry.Secret{secretA}, Logger: quiet()})
				if err != nil {
					t.Fatal(err)
				}
				w := httptest.NewRecorder()
				h.ServeHTTP(w, signed(t, "evt_1", time.Now(), p.event(t, "succeeded"), secretA))
				if w.Code != 200 {
					t.Errorf("%d %s, want 200", w.Code, w.Body)
				}
				if !cut.struck() {
					t.Error("nothing was lost: the test tests nothing")
				}
				if diff := cmp.Diff(p.paid("succeeded"), e.payments(p.chargeID)); diff != "" {
					t.Errorf("payments (-want +got):\n%s", diff)
				}
				if got := e.row("evt_1"); got.State != "applied" {
					t.Errorf("inbox: %+v", got)
				}
			})
		}
	}
}

// cutter is a TCP proxy before MySQL that breaks one connection, once, at a statement: before the server gets it, or after
// the server has answered and before the client learns so.
type cutter struct {
	listener net.Listener
	cfg      *driver.Config
	server   string
	armed    atomic.Pointer[target]

	conns sync.WaitGroup
	mu    sync.Mutex
	open  []net.Conn
}

type target struct {
	statement string
	arrives   bool
}

func newCutter(t *testing.T, dsn string) *cutter {
	t.Helper()
	cfg, err := driver.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{listener: ln, cfg: cfg, server: cfg.Addr}
	c.cfg.Addr = ln.Addr().String()
	c.conns.Go(c.accept)
	t.Cleanup(func() {
		if err := ln.Close(); err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		for _, conn := range c.open {
			if err := conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		}
		c.mu.Unlock()
		c.conns.Wait()
	})
	return c
}

func (c *cutter) arm(statement string, arrives bool) { c.armed.Store(&target{statement, arrives}) }

func (c *cutter) struck() bool { return c.armed.Load() == nil }

// db is a pool through the cutter.
func (c *cutter) db(t *testing.T) *sql.DB {
	t.Helper()
	db, err := mysql.Open(c.cfg.FormatDSN(), mysql.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func (c *cutter) accept() {
	for {
		client, err := c.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.DialTimeout("tcp", c.server, 5*time.Second)
		if err != nil {
			closeAll(client)
			continue
		}
		c.mu.Lock()
		c.open = append(c.open, client, server)
		c.mu.Unlock()
		swallow := &atomic.Bool{}
		c.conns.Go(func() { c.forward(client, server, swallow) })
		c.conns.Go(func() { c.backward(server, client, swallow) })
	}
}

// forward passes on what the client says, up to the statement.
func (c *cutter) forward(client, server net.Conn, swallow *atomic.Bool) {
	defer closeAll(client, server)
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		if at := c.armed.Load(); at != nil && bytes.Contains(buf[:n], []byte(at.statement)) && c.armed.CompareAndSwap(at, nil) {
			if !at.arrives {
				return
			}
			swallow.Store(true)
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}

// backward passes on what the server says, until its answer is to be lost.
func (c *cutter) backward(server, client net.Conn, swallow *atomic.Bool) {
	defer closeAll(client, server)
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if err != nil || swallow.Load() {
			return
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}

func closeAll(all ...io.Closer) {
	for _, c := range all {
		if err := c.Close(); err != nil {
			continue // closed by the other direction
		}
	}
}
