package main

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
)

// Every command line that is deployed is one that this program takes, with the environment that it gets there.
func TestDeployedCommandLines(t *testing.T) {
	t.Parallel()
	got := map[string]string{}
	for where, d := range everyCommand(t) {
		if len(d.argv) > 0 && d.argv[0] == "chargeonce" {
			got[where] = parsed(t, where, d).Command()
		}
	}
	want := map[string]string{
		"compose server-1": "serve", "compose server-2": "serve",
		"compose reconcile": "reconcile run", "compose migrate": "migrate up",
		"compose server-1 healthcheck": "probe <url>", "compose server-2 healthcheck": "probe <url>",
		"compose reconcile healthcheck": "probe <url>", "compose psp healthcheck": "probe <url>",
		"image chargeonce CMD": "serve", "image chargeonce HEALTHCHECK": "probe <url>", "image lab HEALTHCHECK": "probe <url>",
		"kubernetes Deployment chargeonce": "serve", "kubernetes Job chargeonce-migrate": "migrate up",
		"kubernetes CronJob chargeonce-reconcile": "reconcile run",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what is deployed (-want +got):\n%s", diff)
	}
}

// A server that is told to stop gets the time to take requests until its load balancer has noticed, and to end the longest of them.
func TestDrainFitsIntoTheGracePeriod(t *testing.T) {
	t.Parallel()
	servers := 0
	for where, d := range everyCommand(t) {
		if len(d.argv) < 2 || d.argv[1] != "serve" || strings.HasPrefix(where, "image ") {
			continue
		}
		servers++
		k := parsed(t, where, d)
		drain := duration(t, k, "drain-delay")
		longest := drain + duration(t, k, "max-deadline") + 2*duration(t, k, "finish-timeout") + time.Second + telemetryGrace
		if d.grace <= longest {
			t.Errorf("%s: is killed after %s, and may need %s", where, d.grace, longest)
		}
		if drain == 0 {
			t.Errorf("%s: no --drain-delay: requests are still sent to it when it listens no more", where)
		}
	}
	if servers != 3 {
		t.Errorf("%d servers are deployed; want 3", servers)
	}
}

// A pod that waits for its database is not killed for it: nothing is listened on before the database has answered.
func TestStartupProbeOutlastsTheWaitForTheDatabase(t *testing.T) {
	t.Parallel()
	for _, w := range manifests(t) {
		if w.Kind != "Deployment" {
			continue
		}
		p := w.pod().Spec.Containers[0].Startup
		k := parsed(t, w.Metadata.Name, kubernetes(t)["kubernetes Deployment "+w.Metadata.Name])
		if got := time.Duration(p.Period*p.Threshold) * time.Second; got <= duration(t, k, "mysql-wait") {
			t.Errorf("%s: is killed when it has not started after %s, and waits for MySQL up to %s", w.Metadata.Name, got, duration(t, k, "mysql-wait"))
		}
	}
}

// A health check asks a port that its process listens on.
func TestHealthChecksAskTheirOwnProcess(t *testing.T) {
	t.Parallel()
	for where, d := range composed(t) {
		for _, probe := range d.probes {
			u, err := url.Parse(probe)
			if err != nil || u.Hostname() != "127.0.0.1" {
				t.Errorf("%s: probes %s: %v", where, probe, err)
				continue
			}
			if !slices.ContainsFunc(d.argv, func(arg string) bool { return strings.HasSuffix(arg, ":"+u.Port()) }) {
				t.Errorf("%s: probes %s, and listens elsewhere: %q", where, probe, d.argv)
			}
		}
	}
}

// The load balancer waits for longer than a server works on a request, and notices that one drains while that still takes requests.
func TestLoadBalancerOutlastsTheServers(t *testing.T) {
	t.Parallel()
	config := string(deployFile(t, "deploy", "haproxy", "haproxy.cfg"))
	timeout, check := setting(t, config, "timeout server"), setting(t, config, "timeout check")
	inter := setting(t, config, "default-server .*inter")
	fall, err := strconv.Atoi(regexp.MustCompile(`(?m)^ +default-server .* fall (\d+)`).FindStringSubmatch(config)[1])
	if err != nil {
		t.Fatal(err)
	}
	for where, d := range composed(t) {
		if len(d.argv) < 2 || d.argv[1] != "serve" {
			continue
		}
		k := parsed(t, where, d)
		if longest := duration(t, k, "max-deadline") + 2*duration(t, k, "finish-timeout"); timeout <= longest {
			t.Errorf("%s: the load balancer gives up after %s, a request may take %s", where, timeout, longest)
		}
		if notices := time.Duration(fall) * (inter + check); duration(t, k, "drain-delay") <= notices {
			t.Errorf("%s: --drain-delay is %s, the load balancer may need %s to notice", where, duration(t, k, "drain-delay"), notices)
		}
	}
}

// setting finds a duration in haproxy.cfg. A number alone would be milliseconds; there is none.
func setting(t *testing.T, config, name string) time.Duration {
	t.Helper()
	m := regexp.MustCompile(`(?m)^ +` + name + ` +(\d+(?:ms|s|m))\b`).FindStringSubmatch(config)
	if m == nil {
		t.Fatalf("haproxy.cfg has no %s", name)
	}
	d, err := time.ParseDuration(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// parsed parses a deployed command line, with the environment that it gets there. A variable that is no flag of any command is a fault.
func parsed(t *testing.T, where string, d deployed) *kong.Context {
	t.Helper()
	var c cli
	parser, err := kong.New(&c, kong.Name("chargeonce"), kong.DefaultEnvars("CHARGEONCE"), kong.Vars{"version": ""},
		kong.Exit(func(int) { t.Fatalf("%s: %q ends the parser", where, d.argv) }),
		kong.Resolvers(kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
			for _, name := range flag.Envs {
				if value, ok := d.env[name]; ok {
					return value, nil
				}
			}
			return nil, nil
		})))
	if err != nil {
		t.Fatal(err)
	}
	k, err := parser.Parse(d.argv[1:])
	if err != nil {
		t.Fatalf("%s: %q: %v", where, d.argv, err)
	}
	for name := range d.env {
		if strings.HasPrefix(name, "CHARGEONCE_") && !anywhere(name, parser.Model.Node) {
			t.Errorf("%s: %s is no flag of any command", where, name)
		}
	}
	return k
}

// anywhere reports whether a variable stands for a flag of the command or of one below it.
func anywhere(env string, command *kong.Node) bool {
	return slices.ContainsFunc(command.Flags, func(f *kong.Flag) bool { return slices.Contains(f.Envs, env) }) ||
		slices.ContainsFunc(command.Children, func(c *kong.Node) bool { return anywhere(env, c) })
}

// duration is the value of a flag, as given or by default.
func duration(t *testing.T, k *kong.Context, name string) time.Duration {
	t.Helper()
	for _, f := range k.Flags() {
		if f.Name == name {
			d, ok := k.FlagValue(f).(time.Duration)
			if !ok {
				t.Fatalf("--%s is no duration", name)
			}
			return d
		}
	}
	t.Fatalf("%s has no --%s", k.Command(), name)
	return 0
}
