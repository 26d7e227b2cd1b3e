package demo

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc/credentials/insecure"

	"chargeonce/api/payments/v1/client"
	"chargeonce/internal/rig"
)

// serveFlags make deadlines and leases short, so that nobody has to wait long for a lease to end: a request of tryTimeout
// holds its key for 2 s + 1.5 s + 0.5 s at the most.
var serveFlags = []string{
	"--default-deadline", "3s", "--max-deadline", "3s", "--finish-timeout", "1500ms", "--lease-margin", "500ms",
	"--psp-attempt-timeout", "1500ms", "--one-payment-per-order",
}

// The bounds of setting up and of tearing down.
const (
	setUpBound    = 90 * time.Second
	tearDownBound = 30 * time.Second
)

const user = 1

// stage is what the stories are played on.
type stage struct {
	one, two    door
	apiKey      client.APIKey
	orderPrefix string // of this run, so that runs on one installation do not meet

	// psp is nil when the PSP's admin API is not known. calm are its faults when it is to work as it should.
	psp  *rig.PSP
	calm rig.Faults
	// troubled says that a story has changed the faults.
	troubled bool

	// Of the demo's own processes; nil on an installation that runs already.
	rig *rig.Rig
	db  *rig.Database
	sim *rig.SimProcess
	dir string
	out *printer

	thawedAt int64 // how far the log of the server was that was thawed last
}

// door is one server as the app reaches it.
type door struct {
	name   string
	url    string
	server *rig.Server // nil on an installation that runs already
	grpc   bool
}

func (d door) overGRPC() door {
	d.grpc = true
	return d
}

func (d door) how() string {
	if d.grpc {
		return "gRPC CreatePayment"
	}
	return "POST /payments"
}

func (d door) config() client.Config {
	if d.grpc {
		return client.Config{Target: d.server.GRPC, Credentials: insecure.NewCredentials()} // the loopback interface
	}
	return client.Config{BaseURL: d.url}
}

func setUp(ctx context.Context, o Options, out *printer) (*stage, error) {
	ctx, cancel := context.WithTimeout(ctx, setUpBound)
	defer cancel()
	var id [3]byte
	rand.Read(id[:]) // never fails (crypto/rand)
	st := &stage{orderPrefix: "demo-" + hex.EncodeToString(id[:]) + "-", out: out}
	if o.URL != "" {
		return st, st.visit(o)
	}
	if err := st.build(ctx, o); err != nil {
		// What has been set up by then must not stay.
		return nil, errors.Join(err, st.tearDown(context.WithoutCancel(ctx), false))
	}
	return st, nil
}

// visit plays on an installation that runs already.
func (st *stage) visit(o Options) error {
	if o.APIKey == "" {
		return errors.New("demo: an installation that runs already needs an API key too (--api-key)")
	}
	st.one = door{name: "server", url: o.URL}
	st.two, st.apiKey = st.one, o.APIKey
	cfg := st.one.config()
	cfg.APIKey = st.apiKey
	c, err := client.New(cfg) // of no use but to refuse a bad URL at once
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	if err := c.Close(); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	if o.PSPURL != "" {
		st.psp = rig.NewPSP(o.PSPURL)
	}
	st.out.say("On %s.\n", o.URL)
	return nil
}

// build makes a database and starts a PSP and two servers.
func (st *stage) build(ctx context.Context, o Options) error {
	dsn, err := rig.FindMySQL(ctx)
	if err != nil {
		return err
	}
	if st.dir, err = os.MkdirTemp("", "chargeonce-demo-"); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	if st.db, err = rig.NewDatabase(ctx, dsn, "chargeonce_demo_"); err != nil {
		return err
	}
	if st.rig, err = rig.New(rig.Config{ChargeOnce: o.ChargeOnce, GatewaySim: o.GatewaySim, DSN: st.db.DSN, Dir: st.dir}); err != nil {
		return err
	}
	if err := st.rig.Migrate(ctx); err != nil {
		return err
	}
	key, err := st.rig.APIKey(ctx, user)
	if err != nil {
		return err
	}
	st.apiKey = client.APIKey(key)
	if st.sim, err = st.rig.StartPSP(ctx); err != nil {
		return err
	}
	st.psp = st.sim.PSP
	// Only the story of the webhook has webhooks: the others are to stand without their help.
	st.calm = rig.Faults{Webhooks: &rig.WebhookFaults{DropRate: 1}}
	if err := st.psp.SetFaults(ctx, st.calm); err != nil {
		return err
	}
	for _, d := range []struct {
		name string
		door *door
	}{{"one", &st.one}, {"two", &st.two}} {
		server, err := st.rig.StartServer(ctx, d.name, st.psp, serveFlags...)
		if err != nil {
			return err
		}
		*d.door = door{name: d.name, url: server.URL(), server: server}
	}
	st.out.say("A PSP at %s, server one at %s, server two at %s, the database %s.\n", st.psp.URL, st.one.url, st.two.url, st.db.Name)
	return nil
}

// trouble sets the PSP's faults.
func (st *stage) trouble(ctx context.Context, f rig.Faults) error {
	st.troubled = true
	return st.psp.SetFaults(ctx, f)
}

// restore makes the stage as it was before a story.
func (st *stage) restore(ctx context.Context) error {
	var errs []error
	if st.troubled {
		errs = append(errs, st.trouble(ctx, st.calm))
		st.troubled = false
	}
	for _, d := range []door{st.one, st.two} {
		if d.server == nil {
			continue
		}
		select {
		case <-d.server.Done():
			errs = append(errs, d.server.Restart(ctx))
		default:
			errs = append(errs, d.server.Thaw()) // one that a story which failed left frozen
		}
	}
	return errors.Join(errs...)
}

// tearDown ends what the demo started and removes what it made, unless it is to be kept.
func (st *stage) tearDown(ctx context.Context, keep bool) error {
	ctx, cancel := context.WithTimeout(ctx, tearDownBound)
	defer cancel()
	var errs []error
	if st.rig != nil {
		errs = append(errs, st.rig.Cleanup())
	}
	if keep && st.db != nil {
		st.out.say("Kept: the database %s, logs and the PSP's file in %s\n", st.db.Name, st.dir)
		return errors.Join(append(errs, st.db.Close())...)
	}
	if st.db != nil {
		errs = append(errs, st.db.Drop(ctx))
	}
	if st.dir != "" {
		errs = append(errs, os.RemoveAll(st.dir))
	}
	return errors.Join(errs...)
}
