package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// restCaller speaks HTTP/1.1 on one connection of its own, kept alive. It writes requests by hand and reads answers with net/http's
// parser: a pool, two goroutines a connection and a JSON library would take the measured service's cores.
type restCaller struct {
	addr string // host:port
	keys []string

	conn net.Conn // nil: to be dialled
	in   *bufio.Reader
	out  []byte
	body bytes.Buffer
}

const (
	dialTimeout = 5 * time.Second
	// maxBody bounds what is read of an answer.
	maxBody = 64 << 10
)

func (c *restCaller) try(ctx context.Context, p purchase) answer {
	resp, err := c.exchange(ctx, c.request(p))
	if err != nil {
		return answer{reason: "no answer: " + kindOf(err), again: true}
	}
	if resp.StatusCode == http.StatusCreated {
		if !bytes.Contains(c.body.Bytes(), []byte(`"order_id":"`+p.order+`"`)) {
			return answer{reason: "201 with another order's payment"}
		}
		return answer{charged: true, replayed: resp.Header.Get("Idempotent-Replayed") == "true"}
	}
	var problem struct {
		Reason     string `json:"reason"`
		NextAction string `json:"next_action"`
	}
	if err := json.Unmarshal(c.body.Bytes(), &problem); err != nil || problem.Reason == "" {
		return answer{reason: "HTTP " + strconv.Itoa(resp.StatusCode) + " without a reason", again: true}
	}
	return answer{reason: problem.Reason, again: problem.NextAction == "retry_same_key"}
}

// request writes the request's bytes, which are good until the next one.
func (c *restCaller) request(p purchase) []byte {
	c.body.Reset()
	fmt.Fprintf(&c.body, `{"order_id":%q,"amount":"%d","currency":%q,"payment_method":%q,"description":%q}`,
		p.order, amount, currency, paymentMethod, description)
	c.out = fmt.Appendf(c.out[:0], "POST /payments HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nIdempotency-Key: %s\r\nContent-Length: %d\r\n\r\n%s",
		c.addr, c.keys[p.user], p.key, c.body.Len(), c.body.Bytes())
	return c.out
}

// exchange sends a request and reads its answer, the body into c.body. A connection that failed, or that the server will close,
// is not used again.
func (c *restCaller) exchange(ctx context.Context, request []byte) (resp *http.Response, err error) {
	if c.conn == nil {
		dialer := net.Dialer{Timeout: dialTimeout}
		if c.conn, err = dialer.DialContext(ctx, "tcp", c.addr); err != nil {
			return nil, err
		}
		c.in = bufio.NewReader(c.conn)
	}
	defer func() {
		if err != nil || resp.Close {
			err = errors.Join(err, c.close())
		}
	}()
	if err := c.conn.SetDeadline(time.Now().Add(tryTimeout)); err != nil {
		return nil, err
	}
	if _, err := c.conn.Write(request); err != nil {
		return nil, err
	}
	if resp, err = http.ReadResponse(c.in, nil); err != nil {
		return nil, err
	}
	c.body.Reset()
	_, err = io.Copy(&c.body, io.LimitReader(resp.Body, maxBody))
	return resp, errors.Join(err, resp.Body.Close())
}

func (c *restCaller) close() error {
	if c.conn == nil {
		return nil
	}
	err := c.conn.Close()
	c.conn = nil
	return err
}

// kindOf words a connection's error without its addresses, so that it can be counted.
func kindOf(err error) string {
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return "time-out"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed"
	}
	return "connection failed"
}
