package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// moduleVersion is the version of a module that the tools are built of, without its v.
func moduleVersion(root, module string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, "internal", "tools", "go.mod"))
	if err != nil {
		return "", err
	}
	m := regexp.MustCompile(`(?m)^\s*(?:require )?` + regexp.QuoteMeta(module) + ` v(\S+)`).FindSubmatch(text)
	if m == nil {
		return "", fmt.Errorf("internal/tools/go.mod does not require %s", module)
	}
	return string(m[1]), nil
}
