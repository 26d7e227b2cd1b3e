// Command checkdeploy holds what deploys the service against the programs that read it: docker-compose.yml against Compose's own
// loader, the Kubernetes manifests against the API's own Go types, the collector's configuration against the collector; and all of them,
// the workflow too, against one another and against the repository's own rules (pinned images, no open
// port, probes, limits). It needs no engine, no cluster and no network.
//
//	go run -C internal/tools ./checkdeploy
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
)

// checks are all there are, by what they look at. Each takes the root of the repository.
var checks = []struct {
	what string
	run  func(ctx context.Context, root string) error
}{
	{"docker-compose.yml", checkCompose},
	{"deploy/haproxy", checkBalancer},
	{"deploy/prometheus", checkScraping},
	{"deploy/grafana", checkGrafana},
	{"deploy/otel", checkCollector},
	{"deploy/kubernetes", checkKubernetes},
	{".github", checkHosting},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	root, err := repository()
	if err == nil {
		err = run(ctx, root, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "checkdeploy:", err)
		os.Exit(1)
	}
}

// run makes every check, prints a line for each, and returns what is wrong.
func run(ctx context.Context, root string, out io.Writer) error {
	var all []error
	for _, c := range checks {
		verdict := "ok  "
		if err := c.run(ctx, root); err != nil {
			verdict = "FAIL"
			all = append(all, fmt.Errorf("%s:\n%w", c.what, err))
		}
		if _, err := fmt.Fprintln(out, verdict, c.what); err != nil {
			return err
		}
	}
	return errors.Join(all...)
}

// repository returns the nearest folder above this one that holds docker-compose.yml.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		_, err := os.Stat(filepath.Join(dir, "docker-compose.yml"))
		if err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", fmt.Errorf("no docker-compose.yml here or above: %w", err)
		}
		dir = up
	}
}

// faults collects what is wrong with one file.
type faults []error

func (f *faults) addf(format string, args ...any) { *f = append(*f, fmt.Errorf("  "+format, args...)) }

// err is all of them as one error, or nil.
func (f faults) err() error { return errors.Join(f...) }
