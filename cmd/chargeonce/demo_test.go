package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/internal/telemetry"
)

// defaults are settings with a default of their own, as a shell and docker-compose.yml have them.
var defaults = regexp.MustCompile(`\$\{(CHARGEONCE_[A-Z_]+):-([^}]*)\}`)

// The list in the code is what the files hold: a secret that is public there must be warned of.
func TestTheDemosSecretsAreThoseThatTheFilesHold(t *testing.T) {
	t.Parallel()
	known := map[string]string{}
	for _, d := range demoValues {
		known[d.setting] = d.value
	}
	found := map[string]bool{}
	read := func(path string) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range defaults.FindAllStringSubmatch(string(text), -1) {
			setting, value := m[1], m[2]
			secret := strings.HasSuffix(setting, "_PASSWORD") || strings.HasSuffix(setting, "_KEY") || strings.HasSuffix(setting, "_SECRETS")
			if secret && value != "" && known[setting] != value {
				t.Errorf("%s: %s is %q by default, and demoValues has %q", path, setting, value, known[setting])
			}
			found[setting] = true
		}
	}
	read("../../docker-compose.yml")
	err := filepath.WalkDir("../../deploy", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			read(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for setting := range known {
		if !found[setting] {
			t.Errorf("%s is in demoValues, and no file has a default for it any more", setting)
		}
	}
	if demoPSPKey.value != gatewaysim.DemoAPIKey || demoWebhookKey.value != gatewaysim.DemoWebhookSecret() {
		t.Error("the simulator's public secrets are others")
	}
}

func TestServeWarnsLoudlyOfTheDemosSecrets(t *testing.T) {
	t.Parallel()
	p := chargeonce(t, "u:"+demoPassword.value+"@tcp(127.0.0.1:1)/d", "serve", "--mysql-wait", "10ms", "--psp-url", "http://127.0.0.1:1",
		"--page-token-key", demoPageKey.value) // the PSP's key and the webhook secret are the demo's already
	if err := p.Run(); err == nil {
		t.Error("it served without a database")
	}
	for _, d := range demoValues {
		if want := "THE DEMO " + d.what + " IS IN USE"; !strings.Contains(p.stderr.String(), want) {
			t.Errorf("no %q in\n%s", want, p.stderr.String())
		}
		if strings.Contains(p.stderr.String(), d.value) {
			t.Errorf("the log shows %s", d.value)
		}
		if d.is(telemetry.Secret("another")) {
			t.Errorf("%s: another secret is taken for the demo's", d.setting)
		}
	}
}
