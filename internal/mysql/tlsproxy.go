package mysql

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"

	"github.com/go-sql-driver/mysql"
)

// TLSProxy stands between a pool and MySQL in tests and shows its own certificate in place of the server's. MySQL speaks in clear
// until the client asks for TLS by its first packet, so the proxy passes one packet on in each direction and then speaks TLS with both.
type TLSProxy struct {
	// DSN reaches the database through the proxy.
	DSN string

	ln     net.Listener
	target string
	server func() *tls.Config
	wg     sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
}

// NewTLSProxy starts a proxy to dsn's server, which must speak TLS, on a free port of 127.0.0.1; it ends with the test. server
// gives the configuration of each connection.
func NewTLSProxy(t TB, dsn string, server func() *tls.Config) *TLSProxy {
	t.Helper()
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatalf("TLS proxy: %v", err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("TLS proxy: %v", err)
	}
	p := &TLSProxy{ln: ln, target: cfg.Addr, server: server}
	cfg.Addr = ln.Addr().String()
	p.DSN = cfg.FormatDSN()
	p.wg.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *TLSProxy) accept() {
	for {
		client, err := p.ln.Accept()
		if err != nil {
			return // closed
		}
		server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", p.target)
		if err != nil {
			closeConn(client)
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, server)
		p.mu.Unlock()
		p.wg.Go(func() {
			defer closeConn(client)
			defer closeConn(server)
			p.serve(client, server)
		})
	}
}

func (p *TLSProxy) serve(client, server net.Conn) {
	greeting, _, err := readPacket(server)
	if err != nil {
		return
	}
	if _, err := client.Write(greeting); err != nil {
		return
	}
	const sslRequest = 4 + 32 // its packet; a log-in in clear is longer
	request, _, err := readPacket(client)
	if err != nil || len(request) != sslRequest {
		return
	}
	if _, err := server.Write(request); err != nil {
		return
	}
	near := tls.Server(client, p.server())
	far := tls.Client(server, &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}) //nolint:gosec // G402: the test server's certificate names nobody
	var up sync.WaitGroup
	up.Go(func() { pass(far, near) })
	pass(near, far)
	closeConn(client)
	closeConn(server)
	up.Wait()
}

// pass copies until either end is closed.
func pass(to, from net.Conn) {
	if _, err := io.Copy(to, from); err != nil {
		closeConn(from)
	}
	closeConn(to)
}

func (p *TLSProxy) close() {
	err := p.ln.Close()
	p.mu.Lock()
	for _, c := range p.conns {
		closeConn(c)
	}
	p.mu.Unlock()
	p.wg.Wait()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		panic("TLS proxy: " + err.Error())
	}
}
