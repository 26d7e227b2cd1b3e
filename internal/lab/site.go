package lab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"google.golang.org/grpc/credentials/insecure"

	"chargeonce/api/payments/v1/client"
	"chargeonce/internal/psp"
	"chargeonce/internal/rig"
)

// Env is what experiments are made of, as far as they need it.
type Env struct {
	// ChargeOnce and GatewaySim are the binaries.
	ChargeOnce, GatewaySim string
	// DSN reaches a MySQL server on which databases may be made; empty means [rig.FindMySQL].
	DSN string
}

// Check reports a binary that is not there. Experiments look for what they need themselves; this is for a run of many, to fail
// before the first.
func (e Env) Check() error {
	return errors.Join(e.has("chargeonce", e.ChargeOnce), e.has("gateway-sim", e.GatewaySim))
}

func (Env) has(name, path string) error {
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("there is no %s: %w; `make build` builds it, --%s names it", name, err, name)
	}
	return nil
}

// user is whose purchases the experiments are.
const user = 1

// closeBound bounds the removing of a site.
const closeBound = 30 * time.Second

// site is where one experiment is made: a simulated PSP, and for those that need the service a database and servers. All of it
// is the experiment's own, and gone when the experiment has ended.
type site struct {
	rig *rig.Rig
	dir string
	psp *provider

	// Of an experiment with the service.
	db     *rig.Database
	apiKey client.APIKey
}

// withPSP runs do on a site that has a PSP alone. simFlags are further flags of gateway-sim.
func (e Env) withPSP(ctx context.Context, do func(*site) error, simFlags ...string) error {
	return e.on(ctx, do, func(s *site) error {
		return s.start(ctx, e, "", simFlags)
	})
}

// withService runs do on a site that has a PSP and a database with the schema; servers are for do to start.
func (e Env) withService(ctx context.Context, do func(*site) error, simFlags ...string) error {
	return e.on(ctx, do, func(s *site) (err error) {
		if err := e.has("chargeonce", e.ChargeOnce); err != nil {
			return err
		}
		server := e.DSN
		if server == "" {
			if server, err = rig.FindMySQL(ctx); err != nil {
				return err
			}
		}
		if s.db, err = rig.NewDatabase(ctx, server, "chargeonce_lab_"); err != nil {
			return err
		}
		if err := s.start(ctx, e, s.db.DSN, simFlags); err != nil {
			return err
		}
		if err := s.rig.Migrate(ctx); err != nil {
			return err
		}
		key, err := s.rig.APIKey(ctx, user)
		s.apiKey = client.APIKey(key)
		return err
	})
}

// on builds a site, runs do on it, and removes it. The logs stay when do could not be done.
func (e Env) on(ctx context.Context, do, build func(*site) error) (err error) {
	s := &site{}
	if s.dir, err = os.MkdirTemp("", "chargeonce-lab-"); err != nil {
		return fmt.Errorf("site: %w", err)
	}
	if err = build(s); err == nil {
		err = do(s)
	}
	keep := err != nil && ctx.Err() == nil
	if keep {
		err = fmt.Errorf("%w; its logs are in %s", err, s.dir)
	}
	return errors.Join(err, s.close(context.WithoutCancel(ctx), keep))
}

func (s *site) start(ctx context.Context, e Env, dsn string, simFlags []string) (err error) {
	if err := e.has("gateway-sim", e.GatewaySim); err != nil {
		return err
	}
	s.rig, err = rig.New(rig.Config{ChargeOnce: e.ChargeOnce, GatewaySim: e.GatewaySim, DSN: dsn, Dir: s.dir})
	if err != nil {
		return err
	}
	sim, err := s.rig.StartPSP(ctx, simFlags...)
	if err != nil {
		return err
	}
	s.psp = newProvider(sim.PSP)
	return nil
}

func (s *site) close(ctx context.Context, keepLogs bool) error {
	ctx, cancel := context.WithTimeout(ctx, closeBound)
	defer cancel()
	var errs []error
	if s.rig != nil {
		errs = append(errs, s.rig.Cleanup())
	}
	if s.db != nil {
		errs = append(errs, s.db.Drop(ctx))
	}
	if !keepLogs {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}

// pspClient makes the service's own client of the PSP, in this process, and returns its breaker's log with it.
func (s *site) pspClient(cfg psp.Config) (*psp.Client, *changes, error) {
	seen := &changes{began: time.Now()}
	cfg.BaseURL, cfg.APIKey, cfg.Logger = s.psp.sim.URL, rig.PSPKey, slog.New(seen)
	c, err := psp.New(cfg)
	return c, seen, err
}

// overREST and overGRPC are how a caller reaches a server.
func (s *site) overREST(at *rig.Server) client.Config {
	return client.Config{APIKey: s.apiKey, BaseURL: at.URL()}
}

func (s *site) overGRPC(at *rig.Server) client.Config {
	return client.Config{APIKey: s.apiKey, Target: at.GRPC, Credentials: insecure.NewCredentials()} // the loopback interface
}

// count runs a query that gives one number.
func (s *site) count(ctx context.Context, query string, args ...any) (n int64, err error) {
	if err = s.db.QueryRowContext(ctx, query, args...).Scan(&n); err != nil {
		return 0, fmt.Errorf("%s: %w", query, err)
	}
	return n, nil
}

// pollEvery is how often a condition is looked at.
const pollEvery = 10 * time.Millisecond

// until looks at a condition until it holds, or fails, or ctx ends.
func until(ctx context.Context, what string, check func() (bool, error)) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		ok, err := check()
		if err != nil {
			return fmt.Errorf("waiting for %s: %w", what, err)
		}
		if ok {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		}
	}
}
