package server

import (
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"chargeonce/internal/payment"
	"chargeonce/internal/telemetry"
)

// Config is what a [Server] is made of. DB and Flow are required; a zero value elsewhere means the default that is named.
type Config struct {
	// DB is where payments and API keys are read.
	DB *sql.DB
	// Flow takes purchases through; it must render its answers with [Renderer].
	Flow *payment.Flow
	// Log gets one line per request. Default slog.Default().
	Log *slog.Logger

	// GRPCListen, RESTListen and AdminListen are addresses to listen on; port 0 takes a free one. Default 127.0.0.1 and
	// 9090, 8080, 9091. The admin port has /metrics, /debug/pprof and /admin/read-only, speaks in clear and has no guard: keep it
	// inside.
	GRPCListen, RESTListen, AdminListen string

	// TLS gives the certificates of each new connection to gRPC and REST; nil: they speak in clear. With ClientCAs, a client must
	// have a certificate of one of them to pay. The server sets the rest, and each call must return a configuration of its own.
	TLS func() *tls.Config

	// ReadOnly has the server start in read-only mode: no new purchases (UNAVAILABLE, before anything is claimed) and no events of
	// the PSP's (503, so that they are sent again); reads and replays are served. PUT and DELETE /admin/read-only switch it.
	ReadOnly bool

	// DefaultDeadline is for a request that names none (default 10 s), MaxDeadline cuts one that is longer (default 30 s).
	DefaultDeadline, MaxDeadline time.Duration
	// ReadTimeout bounds reading a request over REST, header and body, and its header alone by half of that; and over both faces
	// the handshakes of a connection. Default 10 s. Reading a message over gRPC is bounded by MaxDeadline.
	ReadTimeout time.Duration
	// MaxInFlight caps the requests that are being worked on, over both faces together (default 1024). One more is refused at
	// once as OVERLOADED. Probes and webhooks are not counted.
	MaxInFlight int
	// RateLimit is how many requests per second each API key may send, RateBurst how many at once (default: a second's worth).
	// What is beyond is refused as OVERLOADED, with the time until there is room. Default 0: no limit. A server counts for itself.
	RateLimit float64
	RateBurst int

	// DrainDelay is how long a server that stops still takes requests after it has said that it is not ready: as long as a load
	// balancer needs to notice. Default 0.
	DrainDelay time.Duration
	// DrainTimeout bounds how long requests may take to end then. Default MaxDeadline + 10 s, which leaves room for a finish
	// that begins at the last moment.
	DrainTimeout time.Duration

	// PageTokenKey authenticates page tokens. Servers that stand in for each other need the same. Default: random, so that a
	// token is good for this server, until it restarts.
	PageTokenKey telemetry.Secret

	// Webhook serves POST /webhooks/psp; nil: there is no such route.
	Webhook http.Handler
	// Metrics serves /metrics on the admin port; nil: there is no such route.
	Metrics http.Handler
}

func (c Config) withDefaults() (Config, error) {
	if c.DB == nil || c.Flow == nil {
		return c, errors.New("server: Config needs DB and Flow")
	}
	setDefault(&c.GRPCListen, "127.0.0.1:9090")
	setDefault(&c.RESTListen, "127.0.0.1:8080")
	setDefault(&c.AdminListen, "127.0.0.1:9091")
	setDefault(&c.DefaultDeadline, 10*time.Second)
	setDefault(&c.MaxDeadline, 30*time.Second)
	setDefault(&c.ReadTimeout, 10*time.Second)
	setDefault(&c.MaxInFlight, 1024)
	setDefault(&c.DrainTimeout, c.MaxDeadline+10*time.Second)
	if c.Log == nil {
		c.Log = slog.Default()
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"DefaultDeadline", c.DefaultDeadline}, {"MaxDeadline", c.MaxDeadline},
		{"ReadTimeout", c.ReadTimeout}, {"DrainDelay", c.DrainDelay}, {"DrainTimeout", c.DrainTimeout},
	} {
		if d.value < 0 {
			return c, fmt.Errorf("server: %s: %v is negative", d.name, d.value)
		}
	}
	if c.DefaultDeadline > c.MaxDeadline {
		return c, fmt.Errorf("server: DefaultDeadline: %v is longer than MaxDeadline, %v", c.DefaultDeadline, c.MaxDeadline)
	}
	if c.MaxInFlight < 0 {
		return c, fmt.Errorf("server: MaxInFlight: %d is negative", c.MaxInFlight)
	}
	if !(0 <= c.RateLimit && c.RateLimit <= 1e6) || c.RateBurst < 0 { // NaN neither
		return c, fmt.Errorf("server: RateLimit, RateBurst: %v, %d: want 0 to 1e6, and no negative burst", c.RateLimit, c.RateBurst)
	}
	return c, nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
