package torture

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"chargeonce/api/payments/v1/client"
	"chargeonce/internal/rig"
)

// site is everything that a run attacks: a database, the PSP, three servers and two reconcile loops, each a process, with links
// between them.
type site struct {
	cfg   Config
	dir   string
	mysql *mysqld // nil when the server is not the run's own
	db    *rig.Database
	psp   *provider

	servers []*server
	loops   []*process
	members []*member
	// accounts is what the names of the members' accounts begin with.
	accounts string
	rigs     []*rig.Rig
	hooks    *link // from the PSP to the servers, in turn

	users map[int64]client.APIKey
}

// member is a process's own part of the site: its account at the database, by which the audit knows it, and its two links.
type member struct {
	name, account string
	toDB, toPSP   *link
	dsn           string
}

// server is one server.
type server struct {
	process
	*member
	rig *rig.Server
}

var (
	serverNames = []string{"one", "two", "three"}
	loopNames   = []string{"reconcile-a", "reconcile-b"}
)

// userCount is how many users buy. Clients share them.
const userCount = 6

// setUp starts everything. The site must be torn down, though setUp failed.
func setUp(ctx context.Context, cfg Config) (*site, error) {
	ctx, cancel := context.WithTimeout(ctx, setUpBound)
	defer cancel()
	s := &site{cfg: cfg, users: map[int64]client.APIKey{}}
	var err error
	if s.dir, err = os.MkdirTemp("", "chargeonce-torture-"); err != nil {
		return s, fmt.Errorf("torture: %w", err)
	}
	for _, step := range []func(context.Context) error{s.setUpDB, s.setUpMembers, s.setUpSchema, s.setUpProcesses} {
		if err := step(ctx); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (s *site) setUpDB(ctx context.Context) (err error) {
	dsn := s.cfg.DSN
	if s.cfg.MySQLScript != "" {
		if s.mysql, err = startMySQL(ctx, s.cfg.MySQLScript, filepath.Join(s.dir, "mysql")); err != nil {
			return err
		}
		if dsn, err = s.mysql.dsn(ctx); err != nil {
			return err
		}
	}
	s.db, err = rig.NewDatabase(ctx, dsn, "chargeonce_torture_")
	return err
}

// setUpMembers gives every process its account and its links.
func (s *site) setUpMembers(ctx context.Context) error {
	cfg, err := driver.ParseDSN(s.db.DSN)
	if err != nil {
		return fmt.Errorf("torture: the DSN does not parse: %w", err)
	}
	if s.hooks, err = newLink(); err != nil { // it leads to the servers once they are there
		return err
	}
	if s.psp, err = newProvider(s.cfg.GatewaySim, s.dir, "http://"+s.hooks.addr()+"/webhooks/psp", s.cfg.pace.calm); err != nil {
		return err
	}
	s.accounts = "t" + s.db.Name[len(s.db.Name)-8:]
	for _, name := range append(append([]string{}, serverNames...), loopNames...) {
		m := &member{name: name, account: s.accounts + "-" + name}
		if m.toDB, err = newLink(cfg.Addr); err != nil {
			return err
		}
		s.members = append(s.members, m)
		if m.toPSP, err = newLink(s.psp.listen); err != nil {
			return err
		}
		for _, statement := range []string{
			fmt.Sprintf("CREATE USER '%s'@'%%' IDENTIFIED BY '%s'", m.account, cfg.Passwd),
			fmt.Sprintf("GRANT ALL ON %s.* TO '%s'@'%%'", s.db.Name, m.account),
		} {
			if _, err := s.db.ExecContext(ctx, statement); err != nil {
				return fmt.Errorf("torture: the account of %s: %w", name, err)
			}
		}
		own := cfg.Clone()
		own.User, own.Net, own.Addr = m.account, "tcp", m.toDB.addr()
		m.dsn = own.FormatDSN()
	}
	return nil
}

func (s *site) setUpSchema(ctx context.Context) error {
	r, err := s.newRig(s.db.DSN)
	if err != nil {
		return err
	}
	if err := r.Migrate(ctx); err != nil {
		return err
	}
	for user := int64(1); user <= userCount; user++ {
		key, err := r.APIKey(ctx, user)
		if err != nil {
			return err
		}
		s.users[user] = client.APIKey(key)
	}
	return installAudit(ctx, s.db.DB)
}

func (s *site) newRig(dsn string) (*rig.Rig, error) {
	r, err := rig.New(rig.Config{
		ChargeOnce: s.cfg.ChargeOnce, GatewaySim: s.cfg.GatewaySim, DSN: dsn, Dir: s.dir, Patience: 15 * time.Second,
	})
	if err == nil {
		s.rigs = append(s.rigs, r)
	}
	return r, err
}

func (s *site) setUpProcesses(ctx context.Context) error {
	if err := s.psp.bring(ctx); err != nil {
		return err
	}
	var doors []string
	for n, m := range s.members[:len(serverNames)] {
		r, err := s.newRig(m.dsn)
		if err != nil {
			return err
		}
		args, err := listenArgs()
		if err != nil {
			return err
		}
		args = append(args, s.cfg.serveArgs(n)...)
		srv := &server{member: m}
		srv.process = process{name: m.name, start: func(ctx context.Context) (*rig.Process, error) { return srv.begin(ctx, r, args) }}
		s.servers = append(s.servers, srv)
		if err := srv.bring(ctx); err != nil {
			return err
		}
		doors = append(doors, srv.rig.REST)
	}
	s.hooks.leadTo(doors...)
	for _, m := range s.members[len(serverNames):] {
		admin, err := freeAddress()
		if err != nil {
			return err
		}
		loop := &process{name: m.name, start: func(ctx context.Context) (*rig.Process, error) { return s.beginLoop(ctx, m, admin) }}
		s.loops = append(s.loops, loop)
		if err := loop.bring(ctx); err != nil {
			return err
		}
	}
	return nil
}

// listenArgs give a server addresses that stay free while it is away; these flags come after the rig's, and the last ones count.
func listenArgs() (args []string, err error) {
	for _, flag := range []string{"--grpc-listen", "--rest-listen", "--admin-listen"} {
		address, err := freeAddress()
		if err != nil {
			return nil, err
		}
		args = append(args, flag, address)
	}
	return args, nil
}

// begin starts the server for the first time, or again on the addresses that it had.
func (s *server) begin(ctx context.Context, r *rig.Rig, args []string) (_ *rig.Process, err error) {
	if s.rig == nil {
		s.rig, err = r.StartServer(ctx, s.member.name, rig.NewPSP("http://"+s.toPSP.addr()), args...)
		if s.rig == nil {
			return nil, err
		}
	} else {
		err = s.rig.Restart(ctx)
	}
	return s.rig.Process, err
}

// beginLoop starts a reconcile loop and waits for its metrics: one that cannot run, as without a database, has ended by then.
func (s *site) beginLoop(ctx context.Context, m *member, admin string) (*rig.Process, error) {
	proc, err := rig.Start(rig.Spec{
		Name: m.name, Path: s.cfg.ChargeOnce, Args: append(s.cfg.reconcileArgs(), "--admin-listen", admin), LogFile: s.logFile(m.name),
		Env: []string{
			"CHARGEONCE_MYSQL_DSN=" + m.dsn, "CHARGEONCE_LOG_FORMAT=json",
			"CHARGEONCE_PSP_URL=http://" + m.toPSP.addr(), "CHARGEONCE_PSP_API_KEY=" + rig.PSPKey,
			"CHARGEONCE_WEBHOOK_SECRETS=" + rig.WebhookSecret,
		},
	})
	if err != nil {
		return nil, err
	}
	ready, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	return proc, proc.Await(ready, "/metrics", func(ctx context.Context) (bool, error) {
		_, err := fetch(ctx, "http://"+admin+"/metrics")
		return err == nil, nil
	})
}

// logFile is where a process logs.
func (s *site) logFile(name string) string { return filepath.Join(s.dir, name+".log") }

// processes are all that may be killed, the PSP last.
func (s *site) processes() []*process {
	var all []*process
	for _, srv := range s.servers {
		all = append(all, &srv.process)
	}
	all = append(all, s.loops...)
	if s.psp != nil {
		all = append(all, &s.psp.process)
	}
	return all
}

// accountName says which process an account is; "torture" is the run itself.
func (s *site) accountName(account string) string {
	for _, m := range s.members {
		if m.account == account {
			return m.name
		}
	}
	return "torture"
}

// tearDown ends what is left of the site, by force, and removes it; keep leaves the logs.
func (s *site) tearDown(ctx context.Context, keep bool) error {
	ctx, cancel := context.WithTimeout(ctx, tearDownBound)
	defer cancel()
	var errs []error
	for _, p := range s.processes() {
		errs = append(errs, p.kill())
	}
	for _, r := range s.rigs {
		errs = append(errs, r.Cleanup())
	}
	if s.hooks != nil {
		errs = append(errs, s.hooks.close())
	}
	for _, m := range s.members {
		for _, l := range []*link{m.toDB, m.toPSP} {
			if l != nil {
				errs = append(errs, l.close())
			}
		}
	}
	errs = append(errs, s.dropDB(ctx))
	if s.mysql != nil {
		errs = append(errs, s.mysql.close(ctx))
	}
	if s.dir != "" && !keep {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}

func (s *site) dropDB(ctx context.Context) error {
	if s.db == nil {
		return nil
	}
	if s.mysql != nil {
		return s.db.Close() // the whole server goes
	}
	var accounts []string
	for _, m := range s.members {
		accounts = append(accounts, "'"+m.account+"'@'%'")
	}
	var err error
	if len(accounts) > 0 {
		_, err = s.db.ExecContext(ctx, "DROP USER IF EXISTS "+strings.Join(accounts, ", "))
	}
	return errors.Join(err, s.db.Drop(ctx))
}
