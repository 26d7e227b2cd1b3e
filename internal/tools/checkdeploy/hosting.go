package main

import (
	"context"
	"errors"
	"path/filepath"
	"regexp"
)

// checkHosting: the workflows keep to our own rules: least permissions, a time-out for every job, every action pinned to a version. `make
// verify` has actionlint check the rest of them. The update bot's file is read strictly.
func checkHosting(_ context.Context, root string) error {
	files, err := filepath.Glob(filepath.Join(root, ".github", "workflows", "*.yml"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return errors.New("there is no workflow")
	}
	var f faults
	for _, path := range files {
		checkWorkflow(&f, path)
	}
	checkUpdates(&f, root)
	return f.err()
}

// pinnedAction is an action at a version: owner/name@v6, or a commit.
var pinnedAction = regexp.MustCompile(`^[\w.-]+/[\w./-]+@(v\d+(\.\d+)*|[0-9a-f]{40})$`)
