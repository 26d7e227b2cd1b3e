package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/jhump/protoreflect/v2/protoprint"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	// These register the descriptors of the files below.
	_ "buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	_ "google.golang.org/genproto/googleapis/api/annotations"
	_ "google.golang.org/genproto/googleapis/rpc/code"
)

// thirdParty is the folder of the imported .proto files, which git ignores.
const thirdParty = "api/third_party"

// imports are the .proto files that the contract imports, but for google/protobuf/*, which buf has built in.
var imports = []string{
	"buf/validate/validate.proto",
	"google/api/annotations.proto",
	"google/rpc/code.proto",
}

// printImports writes the imported .proto files, and those that they import, below dir. They are printed from the
// descriptors in the Go modules, so that the .proto text and the Go code that it stands for are of one version.
func printImports(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	printed := map[string]bool{}
	for _, path := range imports {
		file, err := protoregistry.GlobalFiles.FindFileByPath(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if err := printFile(dir, file, printed); err != nil {
			return err
		}
	}
	return nil
}

func printFile(dir string, file protoreflect.FileDescriptor, printed map[string]bool) error {
	path := file.Path()
	if printed[path] || strings.HasPrefix(path, "google/protobuf/") {
		return nil
	}
	printed[path] = true
	for i := range file.Imports().Len() {
		if err := printFile(dir, file.Imports().Get(i).FileDescriptor, printed); err != nil {
			return err
		}
	}
	printer := protoprint.Printer{}
	text, err := printer.PrintProtoToString(file)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	to := filepath.Join(dir, filepath.FromSlash(path))
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, []byte(text), 0o644)
}
