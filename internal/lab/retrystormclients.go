package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"time"

	"chargeonce/internal/psp"
	"chargeonce/internal/rig"
)

// buyers are clients with a purchase each to make.
type buyers interface {
	// buy makes purchase i, with all the tries that it takes. It returns how many requests were sent, and whether the PSP
	// charged in the end; the error says that it could not be found out.
	buy(ctx context.Context, i int) (sent int, charged bool, err error)
	close() error
}

// stormTimeout bounds one attempt. The PSP answers at once, but a busy machine may not.
const stormTimeout = 15 * time.Second

// bareBuyers cost the machine as little as clients can: each has its connection and its request ready. Else 500 of them could not
// come in the same moment, and the machine would spread out what the experiment is to show.
type bareBuyers struct {
	policy policy
	tries  int
	seed   uint64
	conns  []*bareConn
}

// newBareBuyers connects all clients.
func newBareBuyers(ctx context.Context, url string, p policy, n stormNumbers, seed uint64) (*bareBuyers, error) {
	b := &bareBuyers{policy: p, tries: n.Tries, seed: seed}
	for i := range n.Clients {
		c, err := dialBare(ctx, strings.TrimPrefix(url, "http://"), fmt.Sprintf("client-%d", i))
		if err != nil {
			return nil, errors.Join(err, b.close())
		}
		b.conns = append(b.conns, c)
	}
	return b, nil
}

func (b *bareBuyers) buy(ctx context.Context, i int) (sent int, charged bool, err error) {
	return b.policy.retry(ctx, rand.New(rand.NewPCG(b.seed, uint64(i))), b.tries, b.conns[i].charge)
}

func (b *bareBuyers) close() error {
	var errs []error
	for _, c := range b.conns {
		errs = append(errs, c.conn.Close())
	}
	return errors.Join(errs...)
}

// bareConn is a client's connection, and the request that it sends on it again and again.
type bareConn struct {
	conn    net.Conn
	answers *bufio.Reader
	request []byte
}

func dialBare(ctx context.Context, host, key string) (*bareConn, error) {
	conn, err := (&net.Dialer{Timeout: stormTimeout}).DialContext(ctx, "tcp", host)
	if err != nil {
		return nil, err
	}
	const body = `{"amount":1250,"currency":"EUR","payment_method":"tok_visa","description":"lab","metadata":{}}`
	request := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nIdempotency-Key: %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", chargesPath, host, rig.PSPKey, key, len(body), body)
	return &bareConn{conn, bufio.NewReader(conn), request}, nil
}

// charge asks once. An answer that is neither the charge nor a 503 is an error.
func (c *bareConn) charge() (charged bool, err error) {
	if err := c.conn.SetDeadline(time.Now().Add(stormTimeout)); err != nil {
		return false, err
	}
	if _, err := c.conn.Write(c.request); err != nil {
		return false, err
	}
	resp, err := http.ReadResponse(c.answers, nil)
	if err != nil {
		return false, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return false, err
	}
	switch resp.StatusCode {
	case http.StatusCreated:
		return true, nil
	case http.StatusServiceUnavailable:
		return false, nil
	}
	return false, fmt.Errorf("the PSP answered %s", resp.Status)
}

// serviceBuyers share the service's own PSP client, which retries by itself. What else would end that, breaker and budget, is off.
type serviceBuyers struct{ client *psp.Client }

func newServiceBuyers(ctx context.Context, url string, n stormNumbers) (*serviceBuyers, error) {
	c, err := psp.New(psp.Config{BaseURL: url, APIKey: rig.PSPKey, Logger: slog.New(slog.DiscardHandler), AttemptTimeout: stormTimeout,
		MaxAttempts: n.Tries, BackoffBase: n.Base, BackoffCap: n.Cap, BreakerOff: true, BudgetOff: true, Slots: n.Clients})
	if err != nil {
		return nil, err
	}
	warm(ctx, c)
	return &serviceBuyers{c}, nil
}

func (b *serviceBuyers) buy(ctx context.Context, i int) (sent int, charged bool, err error) {
	r := b.client.Charge(ctx, chargeRequest(fmt.Sprintf("client-%d", i)))
	return r.Attempts, r.Kind == psp.Succeeded, nil
}

func (b *serviceBuyers) close() error {
	b.client.Close()
	return nil
}
