package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// toolbox runs the pinned tools at the root of the repository.
type toolbox struct {
	root string
	bin  string // where the built tools are
}

// build builds the tools that go.mod lists and the plugin of our own. What is up to date is not built again.
func (t toolbox) build(ctx context.Context) error {
	if err := os.MkdirAll(t.bin, 0o755); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", t.bin+string(filepath.Separator), "tool", "./protoc-gen-openapi")
	cmd.Dir = filepath.Join(t.root, "internal", "tools")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build the tools: %w", err)
	}
	return nil
}

// run runs one of the tools. Plugins are found on PATH, the built ones first.
func (t toolbox) run(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(t.bin, name), args...)
	cmd.Dir = t.root
	cmd.Env = append(os.Environ(), "PATH="+t.bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %v: %w", name, args, err)
	}
	return nil
}
