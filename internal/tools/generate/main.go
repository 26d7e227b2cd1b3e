// Command generate makes all that is made from the contract in api/: the Go messages, gRPC, the REST gateway and the OpenAPI
// document, each beside its .proto file. It needs no network but the Go module proxy: every tool and every imported .proto
// file comes out of a Go module that this module's go.mod pins.
//
//	go run -C internal/tools ./generate                   # make the files
//	go run -C internal/tools ./generate lint [revision]   # check them instead, against the contract in a git revision
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] != "lint" || len(args) > 2 {
		return errors.New("usage: generate [lint [revision]]")
	}
	root, err := repository()
	if err != nil {
		return err
	}
	if err := printImports(filepath.Join(root, thirdParty)); err != nil {
		return fmt.Errorf("print the imported .proto files: %w", err)
	}
	t := toolbox{root: root, bin: filepath.Join(root, ".local", "tools")}
	if err := t.build(ctx); err != nil {
		return err
	}
	if len(args) == 0 {
		return t.run(ctx, "buf", "generate")
	}
	revision := "main"
	if len(args) == 2 {
		revision = args[1]
	}
	return lint(ctx, t, revision)
}

// repository returns the nearest folder above this one that holds buf.yaml.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		_, err := os.Stat(filepath.Join(dir, "buf.yaml"))
		if err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if !errors.Is(err, os.ErrNotExist) || parent == dir {
			return "", fmt.Errorf("find buf.yaml: %w", err)
		}
		dir = parent
	}
}
