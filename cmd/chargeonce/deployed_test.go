package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// deployed is a command line that something under deploy/ runs, and what goes with it.
type deployed struct {
	argv  []string
	env   map[string]string
	grace time.Duration // between SIGTERM and SIGKILL; 0: not said
	// probes are the URLs that the process is asked for to learn how it is.
	probes []string
}

// everyCommand returns all command lines of docker-compose.yml, the Dockerfile and the Kubernetes manifests, by where they are.
func everyCommand(t *testing.T) map[string]deployed {
	t.Helper()
	all := composed(t)
	maps.Copy(all, dockerfile(t))
	maps.Copy(all, kubernetes(t))
	return all
}

func deployFile(t *testing.T, path ...string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{"..", ".."}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// withDefault is a variable of docker-compose.yml that has a default.
var withDefault = regexp.MustCompile(`\$\{\w+:-([^}]*)\}`)

func composed(t *testing.T) map[string]deployed {
	t.Helper()
	var file struct {
		Services map[string]struct {
			Command     []string
			Environment map[string]string
			StopGrace   string                  `yaml:"stop_grace_period"`
			Health      struct{ Test []string } `yaml:"healthcheck"`
		}
	}
	if err := yaml.Unmarshal(withDefault.ReplaceAll(deployFile(t, "docker-compose.yml"), []byte("$1")), &file); err != nil {
		t.Fatal(err)
	}
	all := map[string]deployed{}
	for name, s := range file.Services {
		d := deployed{argv: s.Command, env: s.Environment}
		if s.StopGrace != "" {
			grace, err := time.ParseDuration(s.StopGrace)
			if err != nil {
				t.Fatal(err)
			}
			d.grace = grace
		}
		if len(s.Health.Test) > 3 && s.Health.Test[1] == "chargeonce" {
			d.probes = s.Health.Test[3:]
			all["compose "+name+" healthcheck"] = deployed{argv: s.Health.Test[1:]}
		}
		all["compose "+name] = d
	}
	return all
}

// dockerfile finds what the images run by themselves.
func dockerfile(t *testing.T) map[string]deployed {
	t.Helper()
	all := map[string]deployed{}
	stage := ""
	for line := range strings.Lines(string(deployFile(t, "deploy", "Dockerfile"))) {
		if m := regexp.MustCompile(`^FROM .* AS (\S+)`).FindStringSubmatch(line); m != nil {
			stage = m[1]
		}
		m := regexp.MustCompile(`^(CMD|HEALTHCHECK .*CMD) (\[.*\])`).FindStringSubmatch(line)
		if m == nil {
			continue
		}
		var d deployed
		if err := json.Unmarshal([]byte(m[2]), &d.argv); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		all["image "+stage+" "+strings.Fields(m[1])[0]] = d
	}
	return all
}

// workload is as much of a Kubernetes manifest as runs something.
type workload struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Template    podTemplate
		JobTemplate struct {
			Spec struct{ Template podTemplate }
		} `yaml:"jobTemplate"`
	}
}

type podTemplate struct {
	Spec struct {
		Grace      int `yaml:"terminationGracePeriodSeconds"`
		Containers []struct {
			Command, Args []string
			EnvFrom       []map[string]map[string]string `yaml:"envFrom"`
			Startup       probe                          `yaml:"startupProbe"`
		}
	}
}

type probe struct {
	Period    int `yaml:"periodSeconds"`
	Threshold int `yaml:"failureThreshold"`
}

// manifests returns what runs something, of all manifests.
func manifests(t *testing.T) []workload {
	t.Helper()
	files, err := filepath.Glob("../../deploy/kubernetes/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all []workload
	for _, file := range files {
		decoder := yaml.NewDecoder(bytes.NewReader(deployFile(t, "deploy", "kubernetes", filepath.Base(file))))
		for {
			var node yaml.Node
			err := decoder.Decode(&node)
			if errors.Is(err, io.EOF) {
				break
			}
			var w workload
			if err == nil && regexp.MustCompile(`(?m)^kind: (Deployment|Job|CronJob)$`).Match(deployFile(t, "deploy", "kubernetes", filepath.Base(file))) {
				if err = node.Decode(&w); err == nil {
					all = append(all, w)
				}
			}
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
		}
	}
	return all
}

func (w workload) pod() podTemplate {
	if w.Kind == "CronJob" {
		return w.Spec.JobTemplate.Spec.Template
	}
	return w.Spec.Template
}

func kubernetes(t *testing.T) map[string]deployed {
	t.Helper()
	var kustomization struct {
		Config []struct{ Literals []string } `yaml:"configMapGenerator"`
	}
	if err := yaml.Unmarshal(deployFile(t, "deploy", "kubernetes", "kustomization.yaml"), &kustomization); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{}
	for _, literal := range kustomization.Config[0].Literals {
		name, value, _ := strings.Cut(literal, "=")
		env[name] = value
	}
	all := map[string]deployed{}
	for _, w := range manifests(t) {
		pod := w.pod()
		for i, c := range pod.Spec.Containers {
			d := deployed{argv: append(c.Command, c.Args...), grace: time.Duration(pod.Spec.Grace) * time.Second}
			if len(c.EnvFrom) > 0 {
				d.env = env
			}
			all["kubernetes "+w.Kind+" "+w.Metadata.Name+strings.Repeat(" "+strconv.Itoa(i), min(i, 1))] = d
		}
	}
	return all
}
