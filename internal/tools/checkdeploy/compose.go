package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// unchecked are the services without a health check, each with its reason in docker-compose.yml.
var unchecked = []string{"migrate", "otel-collector", "jaeger"}

// loadCompose reads docker-compose.yml as `docker compose` does with an empty environment: by the schema, where an unknown key is
// an error, with every variable at its default.
func loadCompose(ctx context.Context, root string) (*types.Project, error) {
	file := filepath.Join(root, "docker-compose.yml")
	return loader.LoadWithContext(ctx, types.ConfigDetails{
		WorkingDir:  root,
		ConfigFiles: []types.ConfigFile{{Filename: file}},
		Environment: types.Mapping{},
	}, loader.WithDiscardEnvFiles)
}

func checkCompose(ctx context.Context, root string) error {
	project, err := loadCompose(ctx, root)
	if err != nil {
		return err
	}
	stages, err := dockerStages(filepath.Join(root, "deploy", "Dockerfile"))
	if err != nil {
		return err
	}
	var f faults
	for name, s := range project.Services {
		checkImage(&f, s, stages)
		checkBounds(&f, s)
		checkReach(&f, s)
		checkOrder(&f, project, s)
		if (s.HealthCheck == nil || s.HealthCheck.Disable) != slices.Contains(unchecked, name) {
			f.addf("%s: a health check is missing, or is there though it is listed as having none", name)
		}
	}
	return f.err()
}

// checkImage: every image is built here or pinned to a version.
func checkImage(f *faults, s types.ServiceConfig, stages []string) {
	if s.Build != nil {
		if !slices.Contains(stages, s.Build.Target) {
			f.addf("%s: deploy/Dockerfile has no stage %q", s.Name, s.Build.Target)
		}
		return
	}
	if !pinned(s.Image) {
		f.addf("%s: image %q has no version", s.Name, s.Image)
	}
}

// pinned reports whether the image's tag names a version, of which a date or a number is a part.
func pinned(image string) bool {
	_, tag, ok := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	return ok && regexp.MustCompile(`^v?\d+\.\d+`).MatchString(tag)
}

// checkBounds: no service may fill the disk or the memory, and each comes back.
func checkBounds(f *faults, s types.ServiceConfig) {
	if s.Logging == nil || s.Logging.Options["max-size"] == "" {
		f.addf("%s: its log grows without bound", s.Name)
	}
	if s.Deploy == nil || s.Deploy.Resources.Limits == nil || s.Deploy.Resources.Limits.MemoryBytes <= 0 {
		f.addf("%s: no limit of memory", s.Name)
	}
	if s.Restart == "" || s.Restart == types.RestartPolicyNo {
		f.addf("%s: is not started again", s.Name)
	}
}

// checkReach: nothing is published but on this machine, nothing is privileged, and what is mounted from the repository is there.
func checkReach(f *faults, s types.ServiceConfig) {
	for _, p := range s.Ports {
		if p.HostIP != "127.0.0.1" {
			f.addf("%s: port %d is published on %q, not on 127.0.0.1", s.Name, p.Target, p.HostIP)
		}
	}
	if s.Privileged || s.NetworkMode == "host" || len(s.CapAdd) > 0 {
		f.addf("%s: has more rights than it needs", s.Name)
	}
	for _, v := range s.Volumes {
		if v.Type != types.VolumeTypeBind {
			continue
		}
		if _, err := os.Stat(v.Source); err != nil {
			f.addf("%s: mounts what is not there: %v", s.Name, err)
		}
		if !v.ReadOnly {
			f.addf("%s: may write to %s", s.Name, v.Source)
		}
	}
}

// checkOrder: what is waited for can be waited for.
func checkOrder(f *faults, project *types.Project, s types.ServiceConfig) {
	for on, how := range s.DependsOn {
		other, ok := project.Services[on]
		switch {
		case !ok:
			f.addf("%s: depends on %s, which is not there", s.Name, on)
		case how.Condition == types.ServiceConditionHealthy && (other.HealthCheck == nil || other.HealthCheck.Disable):
			f.addf("%s: waits for %s to be healthy, which has no health check", s.Name, on)
		}
	}
	if s.Image == "chargeonce" && s.Name != "migrate" && s.DependsOn["migrate"].Condition != types.ServiceConditionCompletedSuccessfully {
		f.addf("%s: does not wait for the migration to have succeeded", s.Name)
	}
}

// dockerStages returns the names of the stages in a Dockerfile.
func dockerStages(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, m := range regexp.MustCompile(`(?mi)^FROM .* AS (\S+)$`).FindAllSubmatch(text, -1) {
		names = append(names, string(m[1]))
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: no named stage", path)
	}
	return names, nil
}

// listeners returns the ports that a composed service of ours listens on, from the flags of its command.
func listeners(s types.ServiceConfig) []string {
	var ports []string
	for _, arg := range s.Command {
		if m := regexp.MustCompile(`^--(?:[a-z]+-)?listen=\S*:(\d+)$`).FindStringSubmatch(arg); m != nil {
			ports = append(ports, m[1])
		}
	}
	return ports
}
