package gatewaysim

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxBody bounds the body of every request.
const maxBody = 64 << 10

// bodyTimeout bounds the reading of a request's body, writeTimeout the sending of an answer. They stand in for the server's
// ReadTimeout and WriteTimeout, which would go on running meanwhile and cut a request that hangs on purpose.
const (
	bodyTimeout  = 10 * time.Second
	writeTimeout = 10 * time.Second
)

// call is one request on its way through the pipeline.
type call struct {
	subject
	r           *http.Request
	body        []byte
	traceparent string
	charge      chargeRequest // of a POST /charges
	claimed     bool          // it holds its key
	events      []newEvent    // what it made
}

// endpoint is what differs from route to route. prepare checks the request and may answer it, before any fault; work has
// the effect. Their second result says whether there is an answer.
type endpoint struct {
	route   string
	prepare func(*call) (answer, bool)
	work    func(*call) answer
}

// serve makes an endpoint a handler. A request that is to have no answer ends by [http.ErrAbortHandler], net/http's own way
// to close a connection from inside a handler.
func (s *Sim) serve(e endpoint) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !s.enter() {
			s.write(w, closing())
			return
		}
		if closesConnection(s.handle(e, w, r)) {
			panic(http.ErrAbortHandler)
		}
	}
}

// handle takes a request through: the caller's credential, the body, prepare, the faults that strike before, the latency,
// work, the webhooks that lead, the faults that strike after.
func (s *Sim) handle(e endpoint, w http.ResponseWriter, r *http.Request) (outcome string) {
	defer s.handlers.Done()
	entry := s.stats.begin(e.route, r)
	outcome = outcomeAborted
	defer func() { s.stats.end(entry, outcome) }()

	c := &call{r: r, traceparent: traceparentOf(r.Header)}
	c.method, c.path = r.Method, r.URL.Path
	if a, bad := s.admit(w, c); bad {
		return s.write(w, a)
	}
	defer s.release(c)
	a, answered := e.prepare(c)
	s.stats.identify(entry, c.key)
	if answered {
		return s.write(w, a)
	}

	p := s.faults.Load().planRequest(c.subject, s.cfg.Latency)
	if p.before != nil {
		return s.strikeBefore(w, r, p)
	}
	if !s.sleep(p.latency) {
		return s.write(w, closing())
	}
	a = e.work(c)
	s.release(c)
	s.publish(c.events)
	for _, fault := range p.wrong {
		a = falsify(a, fault)
	}
	if p.lose != nil {
		s.stats.lost(c.key)
		return s.loseAnswer(w, r, a, p)
	}
	return s.write(w, a)
}

// enter counts a request in, unless the Sim is closed.
func (s *Sim) enter() bool {
	s.handlersMu.Lock()
	defer s.handlersMu.Unlock()
	if s.closed {
		return false
	}
	s.handlers.Add(1)
	return true
}

// release gives the key free, if c holds one.
func (s *Sim) release(c *call) {
	if c.claimed {
		s.unclaim(c.key)
		c.claimed = false
	}
}

// admit checks the credential and reads the body. It answers when either is not as it should be.
func (s *Sim) admit(w http.ResponseWriter, c *call) (answer, bool) {
	token, ok := strings.CutPrefix(c.r.Header.Get("Authorization"), "Bearer ")
	if !ok || subtle.ConstantTimeCompare([]byte(token), []byte(s.cfg.APIKey)) != 1 {
		return failure(http.StatusUnauthorized, Error{Type: "unauthorized", Message: "The API key is missing or wrong."}), true
	}
	body, a, bad := readBody(w, c.r)
	c.body = body
	return a, bad
}

// readBody reads a bounded body in bounded time. It reads to the end, for only then does net/http notice a caller who
// hangs up.
func readBody(w http.ResponseWriter, r *http.Request) (body []byte, a answer, bad bool) {
	set := http.NewResponseController(w).SetReadDeadline
	if err := unlessUnsupported(set(time.Now().Add(bodyTimeout))); err != nil {
		return nil, invalidRequest("The body could not be read."), true
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		err = unlessUnsupported(set(time.Time{}))
	}
	if err != nil {
		return nil, invalidRequest(fmt.Sprintf("The body could not be read, or is longer than %d bytes.", maxBody)), true
	}
	return body, answer{}, false
}

// unlessUnsupported drops the error of a writer that knows no deadlines: a test's recorder, which has no slow peer either.
func unlessUnsupported(err error) error {
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}

// sleep waits for d though the caller may leave, as a PSP would; false says that the process has to end first.
func (s *Sim) sleep(d time.Duration) bool {
	if d <= 0 {
		return s.ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.ctx.Done():
		return false
	}
}

// hang waits until the caller hangs up, the faults change or the process wants to end.
func (s *Sim) hang(caller context.Context, cleared <-chan struct{}) {
	s.stats.hung(1)
	defer s.stats.hung(-1)
	select {
	case <-caller.Done():
	case <-cleared:
	case <-s.stopping:
	}
}

func closing() answer {
	return failure(http.StatusServiceUnavailable, Error{Type: "unavailable", Message: "The gateway is shutting down."})
}

// write sends a as it is and returns its status, for the statistics.
func (s *Sim) write(w http.ResponseWriter, a answer) string {
	body, err := a.render()
	if err != nil {
		s.log.Error("answer does not render", "error", err)
		http.Error(w, "internal error", http.StatusInternalServerError)
		return outcomeAborted
	}
	return s.writeBytes(w, a.status, "application/json", body)
}

func (s *Sim) writeBytes(w http.ResponseWriter, status int, contentType string, body []byte) string {
	w.Header().Set("Content-Type", contentType)
	err := boundWriting(w, writeTimeout)
	w.WriteHeader(status)
	_, writeErr := w.Write(body)
	if err = errors.Join(err, writeErr); err != nil {
		s.log.Debug("caller left before its answer", "error", err)
	}
	return strconv.Itoa(status)
}

// boundWriting bounds the time for what is written next.
func boundWriting(w http.ResponseWriter, d time.Duration) error {
	return unlessUnsupported(http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d)))
}
