package server_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"chargeonce/internal/certs"
	"chargeonce/internal/certs/certstest"
	"chargeonce/internal/server"
)

// patience is how long a client of these tests waits for a server to end what it should end far sooner.
const patience = 20 * time.Second

// tight has a server whose bounds a test can wait for.
func tight() options {
	return options{server: server.Config{
		ReadTimeout: 600 * time.Millisecond, DefaultDeadline: 500 * time.Millisecond, MaxDeadline: 500 * time.Millisecond,
	}}
}

// socket connects to an address.
func socket(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// dribble writes text, then a byte every now and then until the connection ends.
func dribble(t *testing.T, conn net.Conn, text string, pause time.Duration) (ended <-chan struct{}) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(pause)
		defer tick.Stop()
		for range tick.C {
			if _, err := conn.Write([]byte("x")); err != nil {
				return
			}
		}
	}()
	return done
}

// Slow-loris: a client that sends its request a byte at a time is cut off, wherever it dribbles, however often it sends one.
func TestADribblingHTTPClientIsCutOff(t *testing.T) {
	t.Parallel()
	e := newEnv(t, tight())
	key := unique("dribble")
	mustNotBeLogged(key)
	t.Run("each", func(t *testing.T) { // which ends when all have
		for _, tt := range []struct{ name, addr, text string }{
			{"before a request", e.addrs.REST, ""},
			{"in the request line", e.addrs.REST, "GET /hea"},
			{"in the header", e.addrs.REST, "POST /payments HTTP/1.1\r\nHost: x\r\nA: "},
			{"in the body", e.addrs.REST, "POST /payments HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nIdempotency-Key: " + key +
				"\r\nAuthorization: Bearer " + e.apiKey + "\r\nContent-Length: 60000\r\n\r\n{\""},
			{"in a body that nobody wants", e.addrs.REST, "POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n"},
		} {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				conn := socket(t, tt.addr)
				start := time.Now()
				ended := dribble(t, conn, tt.text, 20*time.Millisecond)
				answer, err := io.ReadAll(conn)
				var late net.Error
				if took := time.Since(start); took > 8*time.Second || errors.As(err, &late) && late.Timeout() {
					t.Errorf("it was held for %v: %v", took, err)
				}
				if strings.Contains(string(answer), "HTTP/1.1 2") {
					t.Errorf("answered\n%s", answer)
				}
				if err := conn.Close(); err != nil {
					t.Error(err)
				}
				<-ended
			})
		}
	})
	if row := e.keyRow(key); row != "none" {
		t.Errorf("the key's row: %s", row)
	}
}

func TestADribblingHTTP2ClientIsCutOff(t *testing.T) {
	t.Parallel()
	ca := certstest.NewCA(t, "ours")
	store := certstest.Open(t, alone(ca.Issue("server")))
	o := tight()
	o.server.TLS = func() *tls.Config { return store.Server() }
	e := newEnv(t, o)
	body, dribbled := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+e.addrs.REST+"/payments", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = e.header(unique("k"))
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for range tick.C {
			if _, err := dribbled.Write([]byte(" ")); err != nil {
				return
			}
		}
	}()
	start := time.Now()
	resp, err := overTLS(t, certstest.Open(t, certs.Files{CA: ca.File}), true).Do(req)
	if took := time.Since(start); took > 8*time.Second {
		t.Errorf("it was held for %v", took)
	}
	if err == nil {
		if resp.StatusCode < 400 {
			t.Errorf("answered %s", resp.Status)
		}
		err = resp.Body.Close()
	}
	t.Logf("ended with %v", errors.Join(err, body.CloseWithError(io.ErrClosedPipe)))
}

func TestHeadersOfHTTPAreBounded(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	conn := socket(t, e.addrs.REST)
	if _, err := fmt.Fprintf(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\nA: %s\r\n\r\n", strings.Repeat("x", 32<<10)); err != nil {
		t.Logf("the server did not read it all: %v", err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("32 KiB of header: %s", resp.Status)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
}

// wire is a gRPC client at the level of HTTP/2's frames.
type wire struct {
	t        *testing.T
	framer   *http2.Framer
	settings map[http2.SettingID]uint32 // the server's
	stream   uint32
	header   bytes.Buffer
	encoder  *hpack.Encoder
}

func newWire(t *testing.T, addr string) *wire {
	t.Helper()
	conn := socket(t, addr)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	w := &wire{t: t, framer: http2.NewFramer(conn, conn), settings: map[http2.SettingID]uint32{}}
	w.encoder = hpack.NewEncoder(&w.header)
	w.must(w.framer.WriteSettings())
	frame := w.await(func(f http2.Frame) bool { return f.Header().Type == http2.FrameSettings && f.Header().Flags == 0 })
	settings, ok := frame.(*http2.SettingsFrame)
	if !ok {
		t.Fatalf("a frame of type %T", frame)
	}
	w.must(settings.ForeachSetting(func(s http2.Setting) error {
		w.settings[s.ID] = s.Val
		return nil
	}))
	w.must(w.framer.WriteSettingsAck())
	return w
}

func (w *wire) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// await reads frames until one is as wanted.
func (w *wire) await(wanted func(http2.Frame) bool) http2.Frame {
	w.t.Helper()
	for {
		frame, err := w.framer.ReadFrame()
		if err != nil {
			w.t.Fatalf("the connection ended before the frame came: %v", err)
		}
		if wanted(frame) {
			return frame
		}
	}
}

// open begins a call of CreatePayment and sends no message. extra are further headers.
func (w *wire) open(extra ...hpack.HeaderField) uint32 {
	w.t.Helper()
	w.stream += 2
	id := w.stream - 1
	w.header.Reset()
	for _, f := range append([]hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: "x"},
		{Name: ":path", Value: "/payments.v1.PaymentService/CreatePayment"}, {Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"},
	}, extra...) {
		w.must(w.encoder.WriteField(f))
	}
	w.must(w.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: w.header.Bytes(), EndHeaders: true}))
	return id
}

// ends waits for the end of a stream, by trailers or by a reset.
func (w *wire) ends(id uint32) http2.Frame {
	w.t.Helper()
	return w.await(func(f http2.Frame) bool {
		h := f.Header()
		return h.StreamID == id && (h.Type == http2.FrameRSTStream || h.Type == http2.FrameHeaders && h.Flags.Has(http2.FlagHeadersEndStream))
	})
}

func reset(code http2.ErrCode) func(http2.Frame) bool {
	return func(f http2.Frame) bool {
		r, ok := f.(*http2.RSTStreamFrame)
		return ok && r.ErrCode == code
	}
}

func TestLimitsOfTheGRPCFace(t *testing.T) {
	t.Parallel()
	e := newEnv(t, tight())
	t.Run("it says how many streams and how much header", func(t *testing.T) {
		t.Parallel()
		w := newWire(t, e.addrs.GRPC)
		if w.settings[http2.SettingMaxConcurrentStreams] != 1000 || w.settings[http2.SettingMaxHeaderListSize] != 16<<10 {
			t.Errorf("settings %v", w.settings)
		}
	})
	t.Run("a connection without a word is closed", func(t *testing.T) {
		t.Parallel()
		start := time.Now()
		if _, err := io.Copy(io.Discard, socket(t, e.addrs.GRPC)); err != nil || time.Since(start) > 8*time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
	t.Run("a call without a message ends", func(t *testing.T) {
		t.Parallel()
		w := newWire(t, e.addrs.GRPC)
		start := time.Now()
		w.ends(w.open())
		if took := time.Since(start); took < time.Second || took > 8*time.Second {
			t.Errorf("after %v", took)
		}
	})
	t.Run("a call whose message dribbles ends", func(t *testing.T) {
		t.Parallel()
		w := newWire(t, e.addrs.GRPC)
		start := time.Now()
		id := w.open()
		stop := make(chan struct{})
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for _, b := range append([]byte{0, 0, 0, 255, 0}, make([]byte, 60<<10)...) {
				select {
				case <-tick.C:
					if err := w.framer.WriteData(id, false, []byte{b}); err != nil {
						return
					}
				case <-stop:
					return
				}
			}
		}()
		w.ends(id)
		close(stop)
		<-stopped
		if took := time.Since(start); took > 8*time.Second {
			t.Errorf("after %v", took)
		}
	})
	t.Run("too much header is refused, and the connection goes on", func(t *testing.T) {
		t.Parallel()
		w := newWire(t, e.addrs.GRPC)
		var much []hpack.HeaderField // more than 16 KiB, which compressed fit one frame; two would end the connection
		for i := range 17 {
			much = append(much, hpack.HeaderField{Name: fmt.Sprintf("a%d", i), Value: strings.Repeat("x", 1000)})
		}
		w.open(much...)
		w.await(reset(http2.ErrCodeFrameSize))
		w.ends(w.open())
	})
	t.Run("a stream too many is refused", func(t *testing.T) {
		t.Parallel()
		w := newWire(t, e.addrs.GRPC)
		for range 1001 {
			w.open()
		}
		w.await(reset(http2.ErrCodeRefusedStream))
	})
	t.Run("a flood of pings ends the connection", func(t *testing.T) {
		t.Parallel()
		w := newWire(t, e.addrs.GRPC)
		for range 5 {
			w.must(w.framer.WritePing(false, [8]byte{}))
		}
		w.await(func(f http2.Frame) bool {
			g, ok := f.(*http2.GoAwayFrame)
			return ok && g.ErrCode == http2.ErrCodeEnhanceYourCalm
		})
	})
}
