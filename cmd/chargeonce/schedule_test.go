package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// Every way in which deploy/ schedules reconciliation runs a command line that this program takes, bounds its time, and says what
// each exit status means.
func TestSchedulesOfReconciliation(t *testing.T) {
	t.Parallel()
	for file, bounds := range map[string][]string{
		"kubernetes/reconcile-cronjob.yaml": {"activeDeadlineSeconds: 600", "startingDeadlineSeconds: ", "concurrencyPolicy: Forbid",
			"runAsNonRoot: true", "readOnlyRootFilesystem: true"},
		"systemd/chargeonce-reconcile.service": {"TimeoutStartSec=10min", "TimeoutStopSec="},
		"crontab":                              {"timeout --kill-after=60s 10m ", "flock -n "},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join("..", "..", "deploy", file))
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range bounds {
				if !strings.Contains(string(text), want) {
					t.Errorf("there is no %q in it", want)
				}
			}
			for _, status := range []string{"0", "1", "2"} {
				if !regexp.MustCompile(`(?m)^# +` + status + ` +\S`).Match(text) {
					t.Errorf("exit status %s is not explained", status)
				}
			}
			args := strings.Fields(commandLine(t, text))
			var c cli
			parser, err := kong.New(&c, kong.Vars{"version": ""})
			if err != nil {
				t.Fatal(err)
			}
			k, err := parser.Parse(append(args, "--psp-url=http://psp.test")) // which comes from the environment
			if err != nil {
				t.Fatalf("%v: %v", args, err)
			}
			if k.Command() != "reconcile run" || c.Reconcile.Run.Every != 0 {
				t.Errorf("%v runs %s, every %s; want one pass", args, k.Command(), c.Reconcile.Run.Every)
			}
		})
	}
}

// commandLine finds what chargeonce is run with, in a line that is no comment.
func commandLine(t *testing.T, text []byte) string {
	t.Helper()
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		if found := regexp.MustCompile(`chargeonce"?,? "?(reconcile[^\]>]*)`).FindStringSubmatch(line); found != nil {
			return strings.NewReplacer(`"`, " ", ",", " ").Replace(found[1])
		}
	}
	t.Fatal("it runs nothing")
	return ""
}
