package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"
	"sigs.k8s.io/yaml"
)

// foreign are the ports of the programs that are not ours, by their own documentation.
var foreign = map[string]string{"balancer": "8404", "otel-collector": "8888", "prometheus": "9090", "jaeger": "16686"}

// checkScraping: Prometheus scrapes what is there, and every process of ours that serves metrics is scraped. Its own promtool checks
// the rest of the file.
func checkScraping(ctx context.Context, root string) error {
	project, err := loadCompose(ctx, root)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(root, "deploy", "prometheus", "prometheus.yml"))
	if err != nil {
		return err
	}
	var config struct {
		Jobs []struct {
			Name    string `json:"job_name"`
			Configs []struct {
				Targets []string `json:"targets"`
			} `json:"static_configs"`
		} `json:"scrape_configs"`
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		return err
	}
	var f faults
	var scraped []string
	for _, job := range config.Jobs {
		for _, c := range job.Configs {
			for _, target := range c.Targets {
				host, port, _ := strings.Cut(target, ":")
				if host == "127.0.0.1" {
					host = "prometheus"
				}
				s, ok := project.Services[host]
				if !ok || foreign[host] != port && !slices.Contains(listeners(s), port) {
					f.addf("job %s: nothing listens on %s", job.Name, target)
				}
				scraped = append(scraped, target)
			}
		}
	}
	for name, s := range project.Services {
		if slices.ContainsFunc(s.Command, func(arg string) bool { return strings.HasPrefix(arg, "--admin-listen=") }) &&
			!slices.Contains(scraped, name+":9091") {
			f.addf("%s:9091 is not scraped", name)
		}
	}
	return f.err()
}

// datasources is a provisioning file of Grafana, as far as it is used.
type datasources struct {
	APIVersion int `json:"apiVersion"`
	Sources    []struct {
		Name      string         `json:"name"`
		UID       string         `json:"uid"`
		Type      string         `json:"type"`
		Access    string         `json:"access"`
		URL       string         `json:"url"`
		IsDefault bool           `json:"isDefault"`
		Editable  bool           `json:"editable"`
		JSONData  map[string]any `json:"jsonData"`
	} `json:"datasources"`
}

// dashboardProviders is another.
type dashboardProviders struct {
	APIVersion int `json:"apiVersion"`
	Providers  []struct {
		Name                  string `json:"name"`
		Folder                string `json:"folder"`
		Type                  string `json:"type"`
		DisableDeletion       bool   `json:"disableDeletion"`
		AllowUIUpdates        bool   `json:"allowUiUpdates"`
		UpdateIntervalSeconds int    `json:"updateIntervalSeconds"`
		Options               struct {
			Path string `json:"path"`
		} `json:"options"`
	} `json:"providers"`
}

// checkGrafana: the data sources are services that are there, the folder of dashboards is mounted, and each dashboard uses a data
// source that there is.
func checkGrafana(ctx context.Context, root string) error {
	project, err := loadCompose(ctx, root)
	if err != nil {
		return err
	}
	dir := filepath.Join(root, "deploy", "grafana")
	var sources datasources
	var providers dashboardProviders
	if err := errors.Join(
		readStrict(filepath.Join(dir, "provisioning", "datasources", "datasources.yml"), &sources),
		readStrict(filepath.Join(dir, "provisioning", "dashboards", "dashboards.yml"), &providers)); err != nil {
		return err
	}
	var f faults
	var uids []string
	for _, s := range sources.Sources {
		uids = append(uids, s.UID)
		host, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "http://"), ":")
		if _, ok := project.Services[host]; !ok || foreign[host] != port {
			f.addf("data source %s: nothing listens on %s", s.Name, s.URL)
		}
	}
	for _, p := range providers.Providers {
		if !slices.ContainsFunc(project.Services["grafana"].Volumes, func(v types.ServiceVolumeConfig) bool { return v.Target == p.Options.Path }) {
			f.addf("dashboards of %s: %s is not mounted", p.Name, p.Options.Path)
		}
	}
	boards, err := filepath.Glob(filepath.Join(dir, "dashboards", "*.json"))
	if err != nil {
		return err
	}
	for _, path := range boards {
		checkBoard(&f, path, uids)
	}
	return f.err()
}

// checkBoard: a dashboard has a uid, by which links find it, and every data source that it names is provisioned.
func checkBoard(f *faults, path string, uids []string) {
	text, err := os.ReadFile(path)
	var board map[string]any
	if err == nil {
		err = json.Unmarshal(text, &board)
	}
	if err != nil {
		f.addf("%s: %v", filepath.Base(path), err)
		return
	}
	if uid, ok := board["uid"].(string); !ok || uid == "" {
		f.addf("%s: no uid", filepath.Base(path))
	}
	walk(board, func(object map[string]any) {
		source, ok := object["datasource"].(map[string]any)
		if !ok {
			return
		}
		uid, _ := source["uid"].(string)
		builtin := uid == "-- Grafana --" || strings.HasPrefix(uid, "$")
		if !builtin && !slices.Contains(uids, uid) {
			f.addf("%s: there is no data source %q", filepath.Base(path), uid)
		}
	})
}

// walk calls visit for every object in a JSON value.
func walk(value any, visit func(map[string]any)) {
	switch v := value.(type) {
	case map[string]any:
		visit(v)
		for _, inner := range v {
			walk(inner, visit)
		}
	case []any:
		for _, inner := range v {
			walk(inner, visit)
		}
	}
}

// readStrict reads a YAML file into a struct; what has no field is an error.
func readStrict(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
