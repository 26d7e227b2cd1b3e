package psp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// newTransport makes the pool of connections.
func newTransport(c Config) *http.Transport {
	// HTTP/1.1 only. Over HTTP/2 one stalled connection would stall every call, and net/http sends a refused stream's request again.
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	dialer := &net.Dialer{Timeout: c.DialTimeout, KeepAlive: 15 * time.Second}
	t := &http.Transport{
		Protocols: &protocols,
		// The way of the money is the one in the configuration, not one from HTTPS_PROXY, set for something else.
		Proxy:               nil,
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: c.DialTimeout,
		// Every call may keep its connection. How many there are at once is bounded by the bulkhead; a bound here would be a
		// second queue, without its rules.
		MaxIdleConns:           c.Slots,
		MaxIdleConnsPerHost:    c.Slots,
		IdleConnTimeout:        c.IdleConnTimeout,
		MaxResponseHeaderBytes: maxBody,
		DisableCompression:     true, // The bodies are small, and the bound on them holds for what is read.
	}
	if c.TLS != nil {
		t.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return handshake(ctx, conn, address, c)
		}
	}
	return t
}

// handshake makes conn a TLS connection, with the configuration of this moment. http.Transport would keep that of its start.
func handshake(ctx context.Context, conn net.Conn, address string, c Config) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	cfg := c.TLS(host)
	cfg.NextProtos = []string{"http/1.1"}
	ctx, cancel := context.WithTimeout(ctx, c.DialTimeout)
	defer cancel()
	secure := tls.Client(conn, cfg)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return secure, nil
}

// Warm opens as many connections as there are slots, so that the first charges don't pay for their making. The error counts
// those that could not be opened; the client works without them. Call it once, at start, with a deadline.
func (c *Client) Warm(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.AttemptTimeout)
	defer cancel()
	type opened struct {
		resp *http.Response
		err  error
	}
	answers := make(chan opened)
	for range c.cfg.Slots {
		go func() {
			resp, err := c.ping(ctx)
			answers <- opened{resp, err}
		}()
	}
	// A connection is free for reuse once its answer was read. So all are held until the last has come, or some would
	// serve two of these requests.
	var held []*http.Response
	var first error
	for range c.cfg.Slots {
		if a := <-answers; a.err == nil {
			held = append(held, a.resp)
		} else if first == nil {
			first = a.err
		}
	}
	warm := 0
	for _, resp := range held {
		_, err := io.Copy(io.Discard, io.LimitReader(resp.Body, maxBody))
		if err = errors.Join(err, resp.Body.Close()); err == nil {
			warm++
		} else if first == nil {
			first = err
		}
	}
	if first != nil {
		return fmt.Errorf("psp: %d of %d connections warmed: %w", warm, c.cfg.Slots, first)
	}
	return nil
}

// ping asks the PSP's health page, the one that needs no credential.
func (c *Client) ping(ctx context.Context) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base.JoinPath("healthz").String(), nil)
	if err != nil {
		return nil, err
	}
	return c.transport.RoundTrip(req)
}
