package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"
)

// checkBalancer: the load balancer sends to servers that are there, and sends no request twice.
func checkBalancer(ctx context.Context, root string) error {
	project, err := loadCompose(ctx, root)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(root, "deploy", "haproxy", "haproxy.cfg"))
	if err != nil {
		return err
	}
	var f faults
	used := map[string]int{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(strings.SplitN(line, "#", 2)[0])
		switch {
		case len(words) > 0 && words[0] == "retry-on" && !slices.Equal(words, []string{"retry-on", "conn-failure"}):
			f.addf("%q sends again what a server may have begun", strings.TrimSpace(line))
		case len(words) > 2 && words[0] == "server":
			used[words[1]]++
			checkServer(&f, project, words[1], words[2])
		}
	}
	if !regexp.MustCompile(`(?m)^ +retry-on conn-failure$`).Match(text) {
		f.addf("no retry-on conn-failure: nothing says that a request is not sent twice")
	}
	for name, s := range project.Services {
		if serves(s) && used[name] != 2 {
			f.addf("%s is used by %d backends, want 2: REST and gRPC", name, used[name])
		}
	}
	return f.err()
}

// checkServer: a server of a backend, at host:port, is a service that listens there.
func checkServer(f *faults, project *types.Project, name, address string) {
	host, port, _ := strings.Cut(address, ":")
	s, ok := project.Services[host]
	if !ok || name != host || !slices.Contains(listeners(s), port) {
		f.addf("server %s: nothing listens on %s", name, address)
	}
}

// serves reports whether a composed service runs `chargeonce serve`.
func serves(s types.ServiceConfig) bool {
	return len(s.Command) > 1 && s.Command[0] == "chargeonce" && s.Command[1] == "serve"
}
