package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is in the repository passes every check.
func TestRepositoryIsRight(t *testing.T) {
	t.Parallel()
	root, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	if err := run(t.Context(), root, &said); err != nil {
		t.Errorf("%v\n%s", err, said.String())
	}
	if got := strings.Count(said.String(), "ok  "); got != len(checks) {
		t.Errorf("%d checks of %d were made:\n%s", got, len(checks), said.String())
	}
}

// Every check finds what it is for: each case breaks one thing in a copy of the repository's files.
func TestFaultsAreFound(t *testing.T) {
	t.Parallel()
	root, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ file, replace, with, want string }{
		"an unknown key":                 {"docker-compose.yml", "stop_grace_period: 60s", "stop_grace: 60s", "stop_grace"},
		"a floating image":               {"docker-compose.yml", "haproxy:3.4.5-alpine", "haproxy:latest", `image "haproxy:latest" has no version`},
		"a port for everybody":           {"docker-compose.yml", "127.0.0.1:3000:3000", "3000:3000", "is published on"},
		"no such stage":                  {"docker-compose.yml", "target: lab", "target: laboratory", `no stage "laboratory"`},
		"no health check":                {"docker-compose.yml", "http://127.0.0.1:8404/healthz\"]", "x\"]\n      disable: true", "balancer: a health check is missing"},
		"no order":                       {"docker-compose.yml", "condition: service_completed_successfully", "condition: service_started", "does not wait for the migration"},
		"a mount of nothing":             {"docker-compose.yml", "./deploy/otel:", "./deploy/telemetry:", "mounts what is not there"},
		"a log without bound":            {"docker-compose.yml", "max-size: 20m", "tag: x", "grows without bound"},
		"no limit of memory":             {"docker-compose.yml", "memory: 2G", "cpus: \"2\"", "mysql: no limit of memory"},
		"a POST sent twice":              {"deploy/haproxy/haproxy.cfg", "retry-on conn-failure", "retry-on all-retryable-errors", "sends again"},
		"a server that is gone":          {"deploy/haproxy/haproxy.cfg", "server server-2 server-2:9090", "server server-3 server-3:9090", "nothing listens on server-3:9090"},
		"a target that is gone":          {"deploy/prometheus/prometheus.yml", "reconcile:9091", "reconcile:9090", "reconcile:9091 is not scraped"},
		"another data source":            {"deploy/grafana/provisioning/datasources/datasources.yml", "prometheus:9090", "prometheus:9091", "nothing listens on http://prometheus:9091"},
		"a misspelt provision":           {"deploy/grafana/provisioning/dashboards/dashboards.yml", "allowUiUpdates", "allowUIUpdate", "allowUIUpdate"},
		"dashboards elsewhere":           {"deploy/grafana/provisioning/dashboards/dashboards.yml", "/var/lib/grafana/dashboards", "/dashboards", "is not mounted"},
		"a collector of another version": {"deploy/otel/../../docker-compose.yml", "otel/opentelemetry-collector:0.165.0", "otel/opentelemetry-collector:0.100.0", "bring both to one"},
		"an unknown component":           {"deploy/otel/collector.yml", "  batch:", "  butch:", "butch"},
		"an exporter's misspelt":         {"deploy/otel/collector.yml", "queue_size", "queue_length", "queue_length"},
		"a pipeline to nowhere":          {"deploy/otel/collector.yml", "exporters: [otlp_grpc/jaeger]", "exporters: [otlp_grpc/tempo]", "tempo"},
		"an unknown field":               {"deploy/kubernetes/deployment.yaml", "periodSeconds: 10", "periodSecond: 10", "periodSecond"},
		"a field at a wrong type":        {"deploy/kubernetes/deployment.yaml", "terminationGracePeriodSeconds: 60", "terminationGracePeriodSeconds: 60s", "terminationGracePeriodSeconds"},
		"a selector of others":           {"deploy/kubernetes/service.yaml", "app.kubernetes.io/component: server\n  ports", "app.kubernetes.io/component: web\n  ports", "leads to no pod"},
		"a port nobody has":              {"deploy/kubernetes/service.yaml", "targetPort: rest", "targetPort: http", "leads to port http"},
		"a probe of nothing":             {"deploy/kubernetes/deployment.yaml", "path: /readyz\n              port: admin", "path: /readyz\n              port: web", "no readiness probe"},
		"another port":                   {"deploy/kubernetes/deployment.yaml", "containerPort: 9090", "containerPort: 9099", "listens on"},
		"root":                           {"deploy/kubernetes/migrate-job.yaml", "runAsNonRoot: true", "runAsNonRoot: false", "may run as root"},
		"a writable root":                {"deploy/kubernetes/reconcile-cronjob.yaml", "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "read-only root"},
		"a token":                        {"deploy/kubernetes/deployment.yaml", "automountServiceAccountToken: false", "automountServiceAccountToken: true", "gets a token"},
		"another image":                  {"deploy/kubernetes/migrate-job.yaml", "image: chargeonce", "image: chargeonce-old:1.2", "run different images"},
		"an image of any version":        {"deploy/kubernetes/kustomization.yaml", "newTag: 1.0.0", "newTag: latest", "has no version"},
		"a secret that is not":           {"deploy/kubernetes/deployment.yaml", "key: psp-api-key", "key: psp-key", "the Secret has no key psp-key"},
		"a secret in the open":           {"deploy/kubernetes/reconcile-cronjob.yaml", "- configMapRef:", "- secretRef:", "has secrets in its environment"},
		"a secret applied":               {"deploy/kubernetes/kustomization.yaml", "- service.yaml", "- service.yaml\n  - secret.example.yaml", "a Secret is among what is applied"},
		"a file left out":                {"deploy/kubernetes/kustomization.yaml", "  - migrate-job.yaml\n", "", "3 workloads are written, 2 are listed"},
		"passes at once":                 {"deploy/kubernetes/reconcile-cronjob.yaml", "concurrencyPolicy: Forbid", "concurrencyPolicy: Allow", "wants concurrencyPolicy Forbid"},
		"a Job without end":              {"deploy/kubernetes/migrate-job.yaml", "  activeDeadlineSeconds: 1800\n", "", "wants activeDeadlineSeconds"},
		"too many connections":           {"deploy/kubernetes/horizontalpodautoscaler.yaml", "maxReplicas: 5", "maxReplicas: 10", "connections to MySQL"},
		"an open admin port":             {"deploy/kubernetes/networkpolicy.yaml", "- port: grpc", "- port: admin", "opens the admin port"},
		"open egress":                    {"deploy/kubernetes/networkpolicy.yaml", "policyTypes: [Ingress, Egress]", "policyTypes: [Ingress]", "its Egress is open"},
		"no disruption budget":           {"deploy/kubernetes/poddisruptionbudget.yaml", "component: server\n", "component: web\n", "has 0 disruption budgets"},
		"write permissions":              {".github/workflows/ci.yml", "contents: read", "contents: write", "want contents: read"},
		"a job without end":              {".github/workflows/ci.yml", "    timeout-minutes: 45\n", "", "job test: no time-out"},
		"an action at a branch":          {".github/workflows/ci.yml", "actions/setup-go@v6", "actions/setup-go@main", "is at no version"},
		"a token that is kept":           {".github/workflows/ci.yml", "persist-credentials: false", "persist-credentials: true", "leaves its token"},
		"nothing up to date":             {".github/dependabot.yml", "package-ecosystem: docker\n", "package-ecosystem: npm\n", "nothing updates docker"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broken := copied(t, root)
			path := filepath.Join(broken, c.file)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), c.replace) {
				t.Fatalf("%s has no %q any more", c.file, c.replace)
			}
			if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(text), c.replace, c.with)), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := checkOf(t, c.file)(t.Context(), broken); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v; want %q", err, c.want)
			}
		})
	}
}

// checkOf returns the check that looks at a file.
func checkOf(t *testing.T, file string) func(context.Context, string) error {
	t.Helper()
	for _, c := range checks {
		if strings.HasPrefix(file, c.what) {
			return c.run
		}
	}
	t.Fatalf("no check looks at %s", file)
	return nil
}

// copied copies what the checks read into a folder of the test's own.
func copied(t *testing.T, root string) string {
	t.Helper()
	into := t.TempDir()
	for _, name := range []string{"deploy", ".github"} {
		if err := os.CopyFS(filepath.Join(into, name), os.DirFS(filepath.Join(root, name))); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"docker-compose.yml", "internal/tools/go.mod"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(into, name)), 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(into, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return into
}

func TestDashboards(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"uid": "a", "panels": [{"datasource": {"uid": "prometheus"}, "targets": [{"datasource": {"uid": "$ds"}}]}]}`: "",
		`{"uid": "a", "panels": [{"targets": [{"datasource": {"uid": "loki"}}]}]}`:                                     `there is no data source "loki"`,
		`{"panels": []}`: "no uid",
		`{`:              "unexpected end",
	} {
		path := filepath.Join(t.TempDir(), "board.json")
		if err := os.WriteFile(path, []byte(text), fs.FileMode(0o600)); err != nil {
			t.Fatal(err)
		}
		var f faults
		checkBoard(&f, path, []string{"prometheus", "jaeger"})
		err := f.err()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
}

func TestPinned(t *testing.T) {
	t.Parallel()
	for image, want := range map[string]bool{
		"mysql:8.4": true, "prom/prometheus:v3.16.0": true, "host:5000/a/b:1.2.3-alpine": true,
		"mysql": false, "mysql:latest": false, "mysql:8": false, "host:5000/a/b": false,
	} {
		if got := pinned(image); got != want {
			t.Errorf("pinned(%q) = %t", image, got)
		}
	}
	if err := errors.Join(faults{}...); err != nil {
		t.Error("no fault is an error")
	}
}
