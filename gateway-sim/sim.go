package gatewaysim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
)

// Sim is a simulated PSP on one file. Its methods may be called from several goroutines at once.
type Sim struct {
	cfg      Config
	log      *slog.Logger
	store    *store
	signers  []signer
	handler  http.Handler
	faults   atomic.Pointer[faultSet]
	stats    *recorder
	webhooks *dispatcher

	busyMu sync.Mutex
	busy   map[string]struct{} // the keys that requests are working on

	// stopping is closed when the process wants to end: it cuts hung requests. ctx ends when it must: it cuts latency too.
	stopping chan struct{}
	stopOnce sync.Once
	ctx      context.Context
	cancel   context.CancelFunc

	handlers   sync.WaitGroup // requests being handled
	handlersMu sync.Mutex     // guards closed against handlers.Add
	closed     bool
	background sync.WaitGroup // settling and delivering
	settleWake chan struct{}
	closeOnce  sync.Once
	closeErr   error
}

// Open opens the file, or creates it, and takes up what a process before left undone: pending charges settle and events
// that were not delivered go out.
func Open(cfg Config) (*Sim, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := cfg.Latency.Validate(); err != nil {
		return nil, fmt.Errorf("gateway-sim: Config.Latency: %w", err)
	}
	signers, err := newSigners(cfg.WebhookSecrets)
	if err != nil {
		return nil, err
	}
	st, err := openStore(cfg.Path, int64(cfg.MaxFileSize))
	if err != nil {
		return nil, err
	}
	s := &Sim{
		cfg: cfg, log: cfg.Logger, store: st, signers: signers,
		stats: newRecorder(), busy: map[string]struct{}{},
		stopping: make(chan struct{}), settleWake: make(chan struct{}, 1),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.faults.Store(newFaultSet(Faults{}))
	s.handler = s.routes()
	s.webhooks = newDispatcher(s)
	if cfg.Faults != nil {
		if err := s.SetFaults(*cfg.Faults); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	s.webhooks.load()
	s.background.Go(s.webhooks.run)
	s.background.Go(s.settleLoop)
	return s, nil
}

// Handler serves the contract and the admin API. It outlives nothing: after [Sim.Close] it answers 503.
func (s *Sim) Handler() http.Handler { return s.handler }

// Close cuts the requests and deliveries under way and closes the file. What was answered is in it; what was not delivered
// is delivered by the next process. Calls after the first return the same error.
func (s *Sim) Close() error {
	s.closeOnce.Do(func() {
		s.cutHung()
		s.cancel()
		s.handlersMu.Lock()
		s.closed = true
		s.handlersMu.Unlock()
		s.handlers.Wait()
		s.background.Wait()
		s.webhooks.client.CloseIdleConnections()
		s.closeErr = s.store.close()
	})
	return s.closeErr
}

// cutHung ends every request that a fault let hang, now and later.
func (s *Sim) cutHung() { s.stopOnce.Do(func() { close(s.stopping) }) }

// SetFaults replaces the faults in force, whose windows begin now. Requests that hang because of the old ones are cut.
// Faults that make no sense are a [*FieldError], and the old ones stay.
func (s *Sim) SetFaults(f Faults) error {
	if err := f.Validate(); err != nil {
		return err
	}
	if i := f.Webhooks.SignWith; i != nil && (*i < 0 || *i >= len(s.signers)) {
		return &FieldError{"webhooks.sign_with", fmt.Sprintf("is not the index of one of %d secrets", len(s.signers))}
	}
	old := s.faults.Swap(newFaultSet(f))
	close(old.cleared)
	s.webhooks.kick()
	return nil
}

// ClearFaults ends every fault.
func (s *Sim) ClearFaults() error { return s.SetFaults(Faults{}) }

// Faults returns the faults in force.
func (s *Sim) Faults() Faults { return s.faults.Load().spec }

// SetWebhookURL changes where events go from now on, the waiting ones too. The empty string holds them back.
func (s *Sim) SetWebhookURL(url string) error {
	if err := checkWebhookURL(url); err != nil {
		return err
	}
	s.webhooks.setURL(url)
	return nil
}

// claim marks key as being worked on; false says that another request already does.
func (s *Sim) claim(key string) bool {
	s.busyMu.Lock()
	defer s.busyMu.Unlock()
	if _, taken := s.busy[key]; taken {
		return false
	}
	s.busy[key] = struct{}{}
	return true
}

func (s *Sim) unclaim(key string) {
	s.busyMu.Lock()
	defer s.busyMu.Unlock()
	delete(s.busy, key)
}

func (s *Sim) isBusy(key string) bool {
	s.busyMu.Lock()
	defer s.busyMu.Unlock()
	_, taken := s.busy[key]
	return taken
}
