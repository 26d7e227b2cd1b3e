package webhook

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel"

	"chargeonce/internal/telemetry"
)

// MaxBody is the most bytes that the body of an event may have.
const MaxBody = 64 << 10

// Config says how events are received. DB, Flow and Secrets are required.
type Config struct {
	// DB must have been opened by package mysql.
	DB *sql.DB
	// Flow writes the effect of an event.
	Flow Flow
	// Secrets sign the PSP's events, each "whsec_" and the base64 of 24 to 64 bytes. Several are valid at once, so that one
	// can be replaced without losing an event.
	Secrets []telemetry.Secret
	// Tolerance is how far the time of a delivery may lie from now, before or after (default 5 min).
	Tolerance time.Duration
	// Timeout bounds the work on one event (default 10 s).
	Timeout time.Duration
	// MaxAttempts is how often an event is tried before it is set aside (default [DefaultMaxAttempts]).
	MaxAttempts int
	// Now is the clock (default time.Now).
	Now func() time.Time
	// Logger gets refused and kept events (default slog.Default()). It never gets a payload.
	Logger *slog.Logger
}

// Handler is the HTTP endpoint for the PSP's events, for POST on one path.
//
// It answers 200 once the event is committed, applied or not; 401 when the signature does not hold; 409 when the event's id is
// known with another payload; 400 and 413 for a body or an id that no event has; and 503 when the database was not to be
// had, so that the PSP sends the event again.
type Handler struct {
	inbox    *Inbox
	verifier *verifier
	timeout  time.Duration
	log      *slog.Logger
	metrics  metrics
}

// New checks the configuration and returns the handler.
func New(c Config) (*Handler, error) {
	if c.DB == nil || c.Flow == nil {
		return nil, errors.New("webhook: no database or no flow")
	}
	if c.Tolerance < 0 || c.Timeout < 0 || c.MaxAttempts < 0 {
		return nil, errors.New("webhook: a negative tolerance, time-out or number of attempts")
	}
	if c.Tolerance == 0 {
		c.Tolerance = 5 * time.Minute
	}
	if c.Timeout == 0 {
		c.Timeout = 10 * time.Second
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	v, err := newVerifier(c.Secrets, c.Tolerance, c.Now)
	if err != nil {
		return nil, err
	}
	inbox := NewInbox(c.DB, c.Flow, c.MaxAttempts, c.Logger)
	m, err := newMetrics(otel.Meter("chargeonce/webhook"), inbox)
	if err != nil {
		return nil, fmt.Errorf("webhook: metrics: %w", err)
	}
	return &Handler{inbox: inbox, verifier: v, timeout: c.Timeout, log: c.Logger, metrics: m}, nil
}

// Inbox gives the inbox that the handler fills.
func (h *Handler) Inbox() *Inbox { return h.inbox }

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	ev, a := h.take(w, r)
	h.tell(r, ev, a, time.Since(began))
	if a.status != http.StatusOK {
		h.write(w, r, a.status, "application/problem+json",
			problem{Type: "about:blank", Title: http.StatusText(a.status), Status: a.status, Detail: a.detail})
		return
	}
	h.write(w, r, http.StatusOK, "application/json", struct {
		Result string `json:"result"`
	}{a.outcome})
}

// answer is what a delivery is answered with. outcome is an [Outcome], or why it was refused; that goes to the metrics and the log
// alone. err is for the log.
type answer struct {
	status  int
	outcome string
	detail  string
	err     error
}

// take receives one delivery. The event is the zero one unless its signature held.
func (h *Handler) take(w http.ResponseWriter, r *http.Request) (Event, answer) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return Event{}, answer{http.StatusRequestEntityTooLarge, "too_large", "The body is larger than 64 KiB.", nil}
	case err != nil:
		return Event{}, answer{http.StatusBadRequest, "cut", "The body could not be read.", err}
	}
	st, why := h.verifier.verify(r.Header, body)
	if why != "" {
		return Event{}, answer{http.StatusUnauthorized, string(why), "The signature was not accepted.", nil}
	}
	if len(st.id) > MaxID {
		return Event{}, answer{http.StatusBadRequest, "id", "The event's id is longer than 255 bytes.", nil}
	}
	h.metrics.skewed(r.Context(), st.skew)

	// A sender that hangs up must not cut the transaction in the middle.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), h.timeout)
	defer cancel()
	ev := ParseEvent(st.id, body)
	out, err := h.inbox.Receive(ctx, ev)
	switch {
	case err != nil && ours(err):
		w.Header().Set("Retry-After", "1")
		return ev, answer{http.StatusServiceUnavailable, "unavailable", "The event could not be stored. Send it again.", err}
	case err != nil:
		return ev, answer{http.StatusInternalServerError, "internal", "The event could not be stored. Send it again.", err}
	case out == OutcomeConflict:
		return ev, answer{http.StatusConflict, string(out), "An event with this id and another payload was received before.", nil}
	}
	return ev, answer{status: http.StatusOK, outcome: string(out)}
}

// problem is an RFC 9457 body.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

func (h *Handler) write(w http.ResponseWriter, r *http.Request, status int, mediaType string, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		h.log.ErrorContext(r.Context(), "webhook answer not rendered", "error", err)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", mediaType)
	w.WriteHeader(status)
	if _, err := w.Write(text); err != nil {
		h.log.DebugContext(r.Context(), "webhook answer not sent", "error", err) // the sender left; it will send again
	}
}
