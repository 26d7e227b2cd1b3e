package main

import (
	"os"
	"path/filepath"
	"testing"

	"chargeonce/internal/telemetry"
)

func TestASecretComesFromItsFlagOrItsFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, tt := range []struct {
		name  string
		value telemetry.Secret
		file  string
		want  telemetry.Secret
		bad   bool
	}{
		{"neither", "", "", "", false},
		{"flag", "abc", "", "abc", false},
		{"file", "", file("good", "abc\n"), "abc", false},
		{"both", "abc", file("both", "abc"), "", true},
		{"empty file", "", file("empty", " \n"), "", true},
		{"no such file", "", filepath.Join(dir, "none"), "", true},
	} {
		got, err := secret("x", tt.value, tt.file)
		if got != tt.want || (err != nil) != tt.bad {
			t.Errorf("%s: %q, %v", tt.name, got.Reveal(), err)
		}
	}
}
