package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"
	"github.com/google/go-cmp/cmp"

	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/internal/certs/certstest"
	"chargeonce/internal/mysql"
	"chargeonce/internal/telemetry"
	"chargeonce/migrations"
)

const testPSPKey = "psp_a_key_of_this_test"

// patient is a doctor of a service that is well: a database and a PSP of its own, and no secret of the demo's.
func patient(t *testing.T, db *mysql.TestDB, sim *gatewaysim.Running) *doctor {
	t.Helper()
	return &doctor{
		now:   time.Now,
		mysql: mysqlFlags{DSN: telemetry.Secret(db.DSN)},
		doctorCmd: doctorCmd{
			CheckTimeout: 20 * time.Second,
			PageToken:    pageTokenFlags{Key: "a page token key of this test"},
			PSP:          pspFlags{URL: sim.URL, APIKey: testPSPKey, AttemptTimeout: 10 * time.Second},
			Webhook:      webhookFlags{Secrets: []telemetry.Secret{"whsec_YSB3ZWJob29rIHNlY3JldCBvZiB0aGlzIHRlc3Qh"}},
		},
	}
}

// found returns what a check found.
func (d *doctor) found(t *testing.T, check string) finding {
	t.Helper()
	i := slices.IndexFunc(d.findings, func(f finding) bool { return f.Check == check })
	if i < 0 {
		t.Fatalf("there was no check %q", check)
	}
	return d.findings[i]
}

func TestDoctorFindsNothingWrongWithAServiceThatIsWell(t *testing.T) {
	t.Parallel()
	d := patient(t, mysql.NewTestDB(t), gatewaysim.Start(t, gatewaysim.Config{APIKey: testPSPKey}))
	d.examine(t.Context())
	var checks []string
	for _, f := range d.findings {
		checks = append(checks, f.Check)
		if f.Status != ok || f.Fix != "" || f.Found == "" {
			t.Errorf("%+v", f)
		}
	}
	if diff := cmp.Diff([]string{"mysql dsn", "mysql server", "mysql session", "mysql writable", "mysql durability", "mysql tls", "mysql clock",
		"schema", "psp", "psp api key", "psp clock", "psp slow mark", "webhook secret", "page token key", "tls"}, checks); diff != "" {
		t.Errorf("checks (-want +got):\n%s", diff)
	}
}

// Every fault is made, and found by the check that is there for it. Each row says what the line must tell.
func TestDoctorFindsEachFault(t *testing.T) {
	t.Parallel()
	db, sim := mysql.NewTestDB(t), gatewaysim.Start(t, gatewaysim.Config{APIKey: testPSPKey})
	ca := certstest.NewCA(t, "ours")
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	page := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(page.Close)
	hung := make(chan struct{})
	silent := fakePSP(t, 0, func() { <-hung })
	t.Cleanup(func() { close(hung) }) // before its server is closed, which waits
	for _, tt := range []struct {
		name, check string
		status      status
		want        string
		make        func(*doctor)
	}{
		{"no DSN", "mysql dsn", fail, "no database", func(d *doctor) { d.mysql.DSN = "" }},
		{"a DSN that breaks the rules", "mysql dsn", fail, "READ-COMMITTED", func(d *doctor) { d.mysql.DSN += "?transaction_isolation=%27SERIALIZABLE%27" }},
		{"two DSNs", "mysql dsn", fail, "both set", func(d *doctor) { d.mysql.DSNFile = empty }},
		{"a password twice", "mysql dsn", fail, "names a password", func(d *doctor) { d.mysql.PasswordFile = ca.File }},
		{"the demo's password", "mysql dsn", warn, "everybody knows", func(d *doctor) { d.mysql.DSN = "u:chargeonce-demo@tcp(127.0.0.1:1)/d" }},
		{"no server", "mysql server", fail, "refused", func(d *doctor) { d.mysql.DSN = "u:p@tcp(127.0.0.1:1)/d" }},
		{"and then what needs it", "schema", warn, "not checked", func(d *doctor) { d.mysql.DSN = "u:p@tcp(127.0.0.1:1)/d" }},
		{"a wrong password", "mysql server", fail, "mend the user", func(d *doctor) {
			d.mysql.DSN = telemetry.Secret(edit(t, db.DSN, func(c *driver.Config) { c.Passwd = "no" }))
		}},
		{"a database that is not there", "mysql server", fail, "none_of_this_name", func(d *doctor) {
			d.mysql.DSN = telemetry.Secret(edit(t, db.DSN, func(c *driver.Config) { c.DBName = "none_of_this_name" }))
		}},
		{"TLS that believes anybody", "mysql tls", warn, "skip-verify", func(d *doctor) { d.mysql.DSN += "?tls=skip-verify" }},
		{"a clock that is a little off", "mysql clock", warn, "NTP", func(d *doctor) { d.now = func() time.Time { return time.Now().Add(-20 * time.Second) } }},
		{"a clock that is far off", "mysql clock", fail, "NTP", func(d *doctor) { d.now = func() time.Time { return time.Now().Add(5 * time.Minute) } }},
		{"a schema that was never made", "schema", fail, "migrate up", func(d *doctor) { d.mysql.DSN = telemetry.Secret(mysql.NewEmptyTestDB(t)) }},

		{"no PSP named", "psp", fail, "--psp-url", func(d *doctor) { d.PSP.URL = "" }},
		{"no PSP there", "psp", fail, "refused", func(d *doctor) { d.PSP.URL = "http://127.0.0.1:1" }},
		{"a PSP that says nothing", "psp", fail, "context deadline exceeded", func(d *doctor) { d.PSP.URL, d.CheckTimeout = silent, time.Second }},
		{"a key that it does not take", "psp api key", fail, "401", func(d *doctor) { d.PSP.APIKey = "psp_wrong" }},
		{"another page at its address", "psp api key", fail, "contract", func(d *doctor) { d.PSP.URL = page.URL }},
		{"a PSP of another time", "psp clock", fail, "NTP", func(d *doctor) { d.PSP.URL = fakePSP(t, -10*time.Minute, nil) }},
		{"a slow mark below what a look-up takes", "psp slow mark", fail, "--psp-slow", func(d *doctor) {
			d.PSP.URL, d.PSP.Slow = fakePSP(t, 0, func() { <-time.After(30 * time.Millisecond) }), 10*time.Millisecond
		}},
		{"an admin port that is none", "psp slow mark", warn, "--admin-url", func(d *doctor) { d.AdminURL = page.URL }},

		{"no webhook secret", "webhook secret", warn, "not received", func(d *doctor) { d.Webhook.Secrets = nil }},
		{"a webhook secret that does not decode", "webhook secret", fail, "base64", func(d *doctor) { d.Webhook.Secrets = []telemetry.Secret{"whsec_!"} }},
		{"the demo's webhook secret", "webhook secret", warn, "demo", func(d *doctor) {
			d.Webhook.Secrets = []telemetry.Secret{telemetry.Secret(gatewaysim.DemoWebhookSecret())}
		}},
		{"an empty file of webhook secrets", "webhook secret", fail, "is empty", func(d *doctor) { d.Webhook = webhookFlags{SecretsFile: empty} }},
		{"no page token key", "page token key", warn, "restarts", func(d *doctor) { d.PageToken.Key = "" }},
		{"a page token key that is short", "page token key", warn, "guessed", func(d *doctor) { d.PageToken.Key = "short" }},
		{"the demo's page token key", "page token key", warn, "demo", func(d *doctor) { d.PageToken.Key = telemetry.Secret(demoPageKey.value) }},

		{"a client CA without a certificate", "tls", fail, "--tls-cert", func(d *doctor) { d.TLS.ClientCA = ca.File }},
		{"a certificate without its key", "tls", fail, "go together", func(d *doctor) { d.TLS.Cert = ca.File }},
		{"a certificate that has ended", "tls", fail, "ended", func(d *doctor) { d.TLS = lasting(ca, -time.Minute) }},
		{"one that ends soon", "tls", warn, "quarter", func(d *doctor) { d.TLS = lasting(ca, 10*time.Minute) }},
		{"one that is good", "tls", ok, "the first to end", func(d *doctor) { d.TLS = lasting(ca, time.Hour) }},
		{"a file that is not there", "mysql certificates", fail, "no such file", func(d *doctor) { d.mysql.TLSCA = ca.File + ".none" }},
		{"a file that holds none", "psp certificates", fail, "holds no certificate", func(d *doctor) { d.PSP.TLSCA = empty }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := patient(t, db, sim)
			tt.make(d)
			start := time.Now()
			d.examine(t.Context())
			f := d.found(t, tt.check)
			if f.Status != tt.status || !strings.Contains(f.Found+f.Fix, tt.want) || (f.Fix == "") != (f.Status == ok) {
				t.Errorf("%+v; want %s, and %q in it", f, tt.status, tt.want)
			}
			if took := time.Since(start); took > 30*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// fakePSP answers look-ups as the contract has it, by a clock that is off by so much, after it has run before.
func fakePSP(t *testing.T, off time.Duration, before func()) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", time.Now().Add(off).UTC().Format(http.TimeFormat))
		if before != nil {
			before()
		}
		w.WriteHeader(http.StatusNotFound)
		if _, err := fmt.Fprintf(w, `{"error": {"type": "key_not_found", "message": "…", "idempotency_key": %q}}`, r.URL.Query().Get("idempotency_key")); err != nil {
			t.Log(err)
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func lasting(ca *certstest.CA, left time.Duration) tlsFlags {
	f := ca.Issue("server")
	ca.Renew(f, "server", left)
	return tlsFlags{Cert: f.Cert, Key: f.Key}
}

func edit(t *testing.T, dsn string, change func(*driver.Config)) string {
	t.Helper()
	cfg, err := driver.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	change(cfg)
	return cfg.FormatDSN()
}

// A pool that was opened past the rules stands for one whose session a proxy has reset.
func TestDoctorFindsASessionThatIsNotOurs(t *testing.T) {
	t.Parallel()
	dsn := mysql.NewEmptyTestDB(t)
	for want, params := range map[string]map[string]string{
		"REPEATABLE-READ":    {"transaction_isolation": "'REPEATABLE-READ'"},
		"strict mode is off": {"transaction_isolation": "'READ-COMMITTED'", "sql_mode": "''"},
		"the time zone":      {"transaction_isolation": "'READ-COMMITTED'", "time_zone": "'+02:00'"},
	} {
		cfg, err := driver.ParseDSN(dsn)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Params = params
		db, err := mysql.OpenConfig(cfg, mysql.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if f := sessionOf(t.Context(), db); f.Status != fail || !strings.Contains(f.Found, want) {
			t.Errorf("%v: %+v", params, f)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestDoctorReadsTheSchemasState(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	for _, tt := range []struct {
		make   func() error
		status status
		want   string
	}{
		{func() error { return migrations.Down(t.Context(), db.DB, 1) }, fail, "run `chargeonce migrate up`"},
		{func() error { return migrations.Up(t.Context(), db.DB) }, ok, "version"},
		{func() error {
			_, err := db.ExecContext(t.Context(), `UPDATE schema_migrations SET version = version + 1`)
			return err
		}, warn, "newer"},
		{func() error {
			_, err := db.ExecContext(t.Context(), `UPDATE schema_migrations SET dirty = TRUE`)
			return err
		}, fail, "migrate force"},
	} {
		if err := tt.make(); err != nil {
			t.Fatal(err)
		}
		if f := schemaOf(t.Context(), db.DB); f.Status != tt.status || !strings.Contains(f.Found+f.Fix, tt.want) {
			t.Errorf("%+v; want %s, %q", f, tt.status, tt.want)
		}
	}
}

func TestDoctorJudgesVersionsAndSettings(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]status{
		"8.0.39": ok, "8.4.6-log": ok, "9.7.1": ok, "9.1.0": warn, "10.0.0": warn, "5.7.44-log": fail,
		"11.4.2-MariaDB-ubu2404": fail, "5.5.5-10.6.12-MariaDB": fail, "": fail, "eight": fail,
	} {
		if f := judgeVersion(version); f.Status != want {
			t.Errorf("%q: %+v, want %s", version, f, want)
		}
	}
	for s, want := range map[durability]status{
		{1, 1, true}: ok, {1, 0, false}: ok, {2, 1, true}: warn, {0, 1, false}: warn, {1, 0, true}: warn, {1, 100, true}: warn,
	} {
		if f := s.judge(); f.Status != want {
			t.Errorf("%+v: %+v, want %s", s, f, want)
		}
	}
	if f := judgeWritable(true); f.Status != fail {
		t.Errorf("a replica: %+v", f)
	}
	for ahead, want := range map[time.Duration]status{0: ok, 2 * time.Second: ok, -10 * time.Second: warn, 2 * time.Minute: fail, -time.Hour: fail} {
		if f := judgeClock("x", ahead, 100*time.Millisecond); f.Status != want {
			t.Errorf("%s ahead: %+v, want %s", ahead, f, want)
		}
	}
}

func TestDoctorKnowsAConnectionOverTLS(t *testing.T) {
	t.Parallel()
	ca := certstest.NewCA(t, "ours")
	server := certstest.Open(t, ca.Issue("mysql"))
	proxy := mysql.NewTLSProxy(t, mysql.NewEmptyTestDB(t), server.Server)
	d := &doctor{now: time.Now, mysql: mysqlFlags{DSN: telemetry.Secret(proxy.DSN), TLSCA: ca.File}, doctorCmd: doctorCmd{CheckTimeout: 20 * time.Second}}
	d.examine(t.Context())
	if f := d.found(t, "mysql tls"); f.Status != ok || !strings.HasPrefix(f.Found, "TLSv1.") {
		t.Errorf("%+v", f)
	}
	d = &doctor{now: time.Now, mysql: mysqlFlags{DSN: telemetry.Secret(proxy.DSN), TLSCA: certstest.NewCA(t, "another").File}, doctorCmd: d.doctorCmd}
	d.examine(t.Context())
	if f := d.found(t, "mysql server"); f.Status != fail || !strings.Contains(f.Found, "certificate") {
		t.Errorf("a CA that knows nobody: %+v", f)
	}
}

// The labels and buckets are those of the PSP client; what was not answered, or is no charge, is left out.
func TestDoctorHoldsTheMarkAgainstTheBucketOfTheP99(t *testing.T) {
	t.Parallel()
	const metrics = `# TYPE chargeonce_psp_attempt_duration_seconds histogram
chargeonce_psp_attempt_duration_seconds_bucket{psp_operation="charge",psp_outcome="succeeded",le="0.1"} 900
chargeonce_psp_attempt_duration_seconds_bucket{psp_operation="charge",psp_outcome="succeeded",le="0.2"} 985
chargeonce_psp_attempt_duration_seconds_bucket{psp_operation="charge",psp_outcome="succeeded",le="+Inf"} 990
chargeonce_psp_attempt_duration_seconds_count{psp_operation="charge",psp_outcome="succeeded"} 990
chargeonce_psp_attempt_duration_seconds_bucket{psp_operation="charge",psp_outcome="declined",le="0.1"} 10
chargeonce_psp_attempt_duration_seconds_bucket{psp_operation="charge",psp_outcome="declined",le="0.2"} 10
chargeonce_psp_attempt_duration_seconds_bucket{psp_operation="charge",psp_outcome="declined",le="+Inf"} 10
chargeonce_psp_attempt_duration_seconds_count{psp_operation="charge",psp_outcome="declined"} 10
chargeonce_psp_attempt_duration_seconds_bucket{psp_operation="charge",psp_outcome="unknown",le="0.1"} 0
chargeonce_psp_attempt_duration_seconds_bucket{psp_operation="charge",psp_outcome="unknown",le="0.2"} 0
chargeonce_psp_attempt_duration_seconds_bucket{psp_operation="charge",psp_outcome="unknown",le="+Inf"} 500
chargeonce_psp_attempt_duration_seconds_count{psp_operation="charge",psp_outcome="unknown"} 500
chargeonce_psp_attempt_duration_seconds_bucket{psp_operation="look_up",psp_outcome="never_seen",le="+Inf"} 500
chargeonce_psp_attempt_duration_seconds_count{psp_operation="look_up",psp_outcome="never_seen"} 500
`
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, err := io.WriteString(w, metrics); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(admin.Close)
	for mark, want := range map[time.Duration]status{300 * time.Millisecond: ok, 200 * time.Millisecond: ok, 150 * time.Millisecond: warn, 100 * time.Millisecond: fail} {
		d := &doctor{doctorCmd: doctorCmd{AdminURL: admin.URL + "/", PSP: pspFlags{Slow: mark}}}
		if f := d.slowMark(t.Context(), nil); f.Status != want || !strings.Contains(f.Found, "1000 charges") {
			t.Errorf("%s: %+v, want %s", mark, f, want)
		}
	}
}

func TestDoctorThatIsStoppedCouldNotRun(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := doctorCmd{CheckTimeout: time.Second}.Run(ctx, &globals{}, nil)
	var coded *statusError
	if !errors.As(err, &coded) || coded.ExitCode() != exitCouldNotRun {
		t.Errorf("got %v, want exit status %d", err, exitCouldNotRun)
	}
}
