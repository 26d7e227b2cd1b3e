package main

import (
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"
)

// workflow is a GitHub Actions workflow, as far as our own rules ask; actionlint reads the whole.
type workflow struct {
	Permissions map[string]string `json:"permissions"`
	Concurrency struct {
		Group  string `json:"group"`
		Cancel any    `json:"cancel-in-progress"`
	} `json:"concurrency"`
	Jobs map[string]struct {
		Permissions    map[string]string `json:"permissions"`
		TimeoutMinutes int               `json:"timeout-minutes"`
		Steps          []struct {
			Uses string         `json:"uses"`
			With map[string]any `json:"with"`
		} `json:"steps"`
	} `json:"jobs"`
}

func checkWorkflow(f *faults, path string) {
	name := filepath.Base(path)
	text, err := os.ReadFile(path)
	var w workflow
	if err == nil {
		err = yaml.Unmarshal(text, &w)
	}
	if err != nil {
		f.addf("%s: %w", name, err)
		return
	}
	if len(w.Permissions) != 1 || w.Permissions["contents"] != "read" {
		f.addf("%s: permissions are %v; want contents: read and nothing else", name, w.Permissions)
	}
	if w.Concurrency.Group == "" || w.Concurrency.Cancel == nil {
		f.addf("%s: a newer push does not end the run of an older one", name)
	}
	for id, job := range w.Jobs {
		if job.TimeoutMinutes == 0 {
			f.addf("%s: job %s: no time-out", name, id)
		}
		if len(job.Permissions) > 0 {
			f.addf("%s: job %s: has permissions of its own", name, id)
		}
		for _, step := range job.Steps {
			if step.Uses != "" && !pinnedAction.MatchString(step.Uses) {
				f.addf("%s: job %s: %s is at no version", name, id, step.Uses)
			}
			if kept, ok := step.With["persist-credentials"]; isCheckout(step.Uses) && (!ok || kept != false) {
				f.addf("%s: job %s: the checkout leaves its token for every later step", name, id)
			}
		}
	}
}

func isCheckout(action string) bool {
	return len(action) > len("actions/checkout@") && action[:len("actions/checkout@")] == "actions/checkout@"
}

// updates is the configuration of Dependabot.
type updates struct {
	Version int `json:"version"`
	Updates []struct {
		Ecosystem   string            `json:"package-ecosystem"`
		Directory   string            `json:"directory,omitempty"`
		Directories []string          `json:"directories,omitempty"`
		Schedule    map[string]string `json:"schedule"`
		Groups      map[string]struct {
			Patterns    []string `json:"patterns"`
			UpdateTypes []string `json:"update-types,omitempty"`
		} `json:"groups,omitempty"`
	} `json:"updates"`
}

// checkUpdates: everything that has versions is kept up to date.
func checkUpdates(f *faults, root string) {
	var u updates
	if err := readStrict(filepath.Join(root, ".github", "dependabot.yml"), &u); err != nil {
		f.addf("%w", err)
		return
	}
	var ecosystems []string
	for _, one := range u.Updates {
		ecosystems = append(ecosystems, one.Ecosystem)
		for _, dir := range append(one.Directories, one.Directory) {
			if _, err := os.Stat(filepath.Join(root, dir)); err != nil {
				f.addf("dependabot.yml: %s: %w", one.Ecosystem, err)
			}
		}
	}
	for _, want := range []string{"gomod", "docker", "docker-compose", "github-actions"} {
		if !slices.Contains(ecosystems, want) {
			f.addf("dependabot.yml: nothing updates %s", want)
		}
	}
}
