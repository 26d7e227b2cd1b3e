package main

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// Every command line and variable with which docker-compose.yml and the image run this program is one that it takes.
func TestDeployedCommandLines(t *testing.T) {
	t.Parallel()
	var compose struct {
		Services map[string]struct {
			Command     []string
			Environment map[string]string
		}
	}
	text := read(t, "../../docker-compose.yml")
	if err := yaml.Unmarshal(text, &compose); err != nil {
		t.Fatal(err)
	}
	psp := compose.Services["psp"]
	parser := check(t, psp.Command)
	for name := range psp.Environment {
		known := false
		for _, flag := range parser.Model.Flags {
			known = known || len(flag.Envs) == 1 && flag.Envs[0] == name
		}
		if !known {
			t.Errorf("%s is no flag", name)
		}
	}

	m := regexp.MustCompile(`(?m)^CMD (\["gateway-sim".*\])$`).FindSubmatch(read(t, "../../deploy/Dockerfile"))
	if m == nil {
		t.Fatal("deploy/Dockerfile runs no gateway-sim")
	}
	var command []string
	if err := json.Unmarshal(m[1], &command); err != nil {
		t.Fatal(err)
	}
	check(t, command)
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// check parses a command line, and returns what parsed it.
func check(t *testing.T, command []string) *kong.Kong {
	t.Helper()
	if len(command) == 0 || command[0] != "gateway-sim" {
		t.Fatalf("%q does not run gateway-sim", command)
	}
	var f flags
	parser, err := kong.New(&f, kong.Name("gateway-sim"), kong.DefaultEnvars("GATEWAY_SIM"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(command[1:]); err != nil {
		t.Errorf("%s: %v", strings.Join(command, " "), err)
	}
	return parser
}
