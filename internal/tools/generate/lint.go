package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// contract is the folder of the .proto files that are ours.
const contract = "api/payments"

// lint checks the .proto files' style and form, that the generated files are those that they make, and that they break no
// client of the contract in the git revision.
func lint(ctx context.Context, t toolbox, revision string) error {
	scratch, err := os.MkdirTemp("", "generate-lint-")
	if err != nil {
		return err
	}
	return errors.Join(
		t.run(ctx, "buf", "lint", "--path", contract),
		t.run(ctx, "buf", "format", "--diff", "--exit-code", "--path", contract),
		checkGenerated(ctx, t, filepath.Join(scratch, "generated")),
		checkBreaking(ctx, t, filepath.Join(scratch, "before.tar"), revision),
		os.RemoveAll(scratch),
	)
}

// checkGenerated generates into dir and compares with what is in the repository.
func checkGenerated(ctx context.Context, t toolbox, dir string) error {
	if err := t.run(ctx, "buf", "generate", "--output", dir); err != nil {
		return err
	}
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		want, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		got, err := os.ReadFile(filepath.Join(t.root, name))
		if err != nil {
			return err
		}
		if !bytes.Equal(want, got) {
			return fmt.Errorf("%s is not what its .proto file makes: run `make generate`", name)
		}
		return nil
	})
}

// checkBreaking compares with the contract in the git revision, which it packs into the file archive. The imported files are
// not in git; the present ones go along.
func checkBreaking(ctx context.Context, t toolbox, archive, revision string) error {
	known := t.git(ctx, "rev-parse", "--verify", "--quiet", revision+":"+contract) == nil
	if !known {
		fmt.Fprintf(os.Stderr, "%s has no %s yet: nothing to break\n", revision, contract)
		return nil
	}
	args := []string{"archive", "--output", archive}
	err := filepath.WalkDir(filepath.Join(t.root, thirdParty), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(t.root, path)
		args = append(args, "--prefix="+filepath.Dir(name)+"/", "--add-file="+name)
		return err
	})
	if err != nil {
		return err
	}
	if err := t.git(ctx, append(args, "--prefix=", revision, "buf.yaml", contract)...); err != nil {
		return err
	}
	return t.run(ctx, "buf", "breaking", "--path", contract, "--against", archive)
}

// git runs git at the root of the repository.
func (t toolbox) git(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Stderr = t.root, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("git %s: %w", args[0], err)
	}
	return nil
}
