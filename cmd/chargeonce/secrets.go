package main

import (
	"fmt"
	"os"
	"strings"

	"chargeonce/internal/telemetry"
)

// pageTokenFlags name the key that authenticates page tokens.
type pageTokenFlags struct {
	Key     telemetry.Secret `placeholder:"KEY" help:"Authenticates page tokens; the same on all servers. Better set by CHARGEONCE_PAGE_TOKEN_KEY or --page-token-key-file."`
	KeyFile string           `placeholder:"FILE" help:"File that holds it."`
}

func (f pageTokenFlags) key() (telemetry.Secret, error) {
	return secret("page-token-key", f.Key, f.KeyFile)
}

// secret returns the value of a secret's flag, or else the content of the file that its -file flag names, without the white space
// around it. At most one of the two may be given.
func secret(flag string, value telemetry.Secret, file string) (telemetry.Secret, error) {
	if file == "" {
		return value, nil
	}
	if value != "" {
		return "", fmt.Errorf("--%s and --%s-file are both set", flag, flag)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("--%s-file: %w", flag, err)
	}
	s := strings.TrimSpace(string(text))
	if s == "" {
		return "", fmt.Errorf("--%s-file: %s is empty", flag, file)
	}
	return telemetry.Secret(s), nil
}
