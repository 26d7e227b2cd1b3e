package lab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/internal/rig"
)

// weakPSP stands before the simulated PSP: at first all of its answers are 503, and after that it serves so many requests per
// second and answers the others 503. It notes when each charge was asked for. Health checks always pass.
type weakPSP struct {
	behind http.Handler
	outage time.Duration
	bucket *rate.Limiter

	mu       sync.Mutex
	began    time.Time
	arrivals []time.Duration
}

func newWeakPSP(behind http.Handler, n stormNumbers) *weakPSP {
	return &weakPSP{behind: behind, outage: n.Outage, bucket: rate.NewLimiter(rate.Limit(n.PerSecond), n.Burst)}
}

// start begins the outage.
func (p *weakPSP) start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.began, p.arrivals = time.Now(), nil
}

// ServeHTTP implements http.Handler.
func (p *weakPSP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == chargesPath && (p.note() < p.outage || !p.bucket.Allow()) {
		http.Error(w, "not now", http.StatusServiceUnavailable)
		return
	}
	p.behind.ServeHTTP(w, r)
}

func (p *weakPSP) note() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := time.Since(p.began)
	p.arrivals = append(p.arrivals, at)
	return at
}

// asked is when each charge was asked for.
func (p *weakPSP) asked() []time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]time.Duration(nil), p.arrivals...)
}

// withSim opens a simulated PSP on the file path, serves it behind wrap while do runs, and closes it.
func withSim(ctx context.Context, path string, wrap func(http.Handler) http.Handler, do func(sim *gatewaysim.Sim, url string) error) error {
	sim, err := gatewaysim.Open(gatewaysim.Config{Path: path, APIKey: rig.PSPKey})
	if err != nil {
		return err
	}
	err = onLoopback(ctx, wrap(sim.Handler()), func(url string) error { return do(sim, url) })
	return errors.Join(err, sim.Close())
}

// headerTimeout bounds the reading of a request's header; who is connected here is this process.
const headerTimeout = 10 * time.Second

// onLoopback serves h on a free port of the loopback interface while do runs, and returns do's error.
func onLoopback(ctx context.Context, h http.Handler, do func(url string) error) error {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: headerTimeout, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	err = errors.Join(do("http://"+ln.Addr().String()), server.Close())
	if end := <-served; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return err
}
