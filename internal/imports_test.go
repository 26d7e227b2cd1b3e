// Package internal_test guards the house: which package may import which.
package internal_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const module = "chargeonce"

// mayImport says for each package of ours which others of ours it may import. A row holds for the folders below it too, and
// those may import one another. A new package needs a line here, and one in the design's table that says why it exists.
var mayImport = map[string][]string{
	"api":                {},
	"migrations":         {},
	"internal/telemetry": {},
	// Imports nothing of ours on purpose: client and simulator check the wire contract independently.
	"gateway-sim": {},
	// Reads certificates again when their files change, for gRPC, REST, MySQL and the PSP alike; none of them imports it.
	"internal/certs": {},

	"internal/mysql":       {"migrations"},
	"internal/psp":         {"internal/telemetry"},
	"internal/idempotency": {"internal/mysql", "internal/telemetry"},
	"internal/payment":     {"internal/idempotency", "internal/psp", "internal/mysql", "internal/telemetry"},
	"webhook":              {"internal/payment", "internal/idempotency", "internal/psp", "internal/mysql", "internal/telemetry"},
	"reconcile":            {"internal/payment", "internal/idempotency", "internal/psp", "internal/mysql", "internal/telemetry"},
	"internal/server":      {"api", "internal/payment", "internal/idempotency", "webhook", "internal/mysql", "internal/telemetry"},

	// Starts, freezes and kills processes, for the four below alike; it knows them by their flags and addresses alone.
	"internal/rig": {"internal/mysql"},

	"internal/demo":    {"api", "internal/mysql", "internal/rig"},
	"internal/bench":   {"api", "internal/mysql", "internal/rig"},
	"internal/torture": {"api", "internal/mysql", "internal/rig"},
	"internal/lab": {"api", "internal/mysql", "internal/rig", "internal/psp", "internal/payment", "internal/idempotency", "gateway-sim",
		"internal/lab/phi", "internal/lab/membership"},

	// Failure detectors and membership protocols, to be read beside the documents: they know nothing of payments.
	"internal/lab/phi":        {},
	"internal/lab/membership": {},

	"cmd/chargeonce": {"api", "migrations", "internal/telemetry", "internal/certs", "internal/mysql", "internal/psp", "internal/idempotency",
		"internal/payment", "webhook", "reconcile", "internal/server"},
	"cmd/gateway-sim": {"gateway-sim"},
	"cmd/lab": {"api", "migrations", "internal/telemetry", "internal/mysql", "internal/psp", "internal/idempotency",
		"internal/payment", "webhook", "reconcile", "internal/server", "gateway-sim", "internal/rig", "internal/demo",
		"internal/bench", "internal/torture", "internal/lab"},
}

// notInTheProduct is what the product's binary must not hold, however it would get there.
var notInTheProduct = []string{
	"chargeonce/gateway-sim", "chargeonce/internal/rig", "chargeonce/internal/demo", "chargeonce/internal/bench", "chargeonce/internal/torture",
	"chargeonce/internal/lab", "testing",
}

// row returns the row of mayImport that the package falls under.
func row(pkg string) (string, bool) {
	for ; pkg != "."; pkg = path.Dir(pkg) {
		if _, ok := mayImport[pkg]; ok {
			return pkg, true
		}
	}
	return "", false
}

// faults returns what is wrong with the imports of pkg, a folder of the repository.
func faults(pkg string, imports []string) []string {
	from, ok := row(pkg)
	if !ok {
		return []string{pkg + " is not in the table: add a line to mayImport and to the design's table, with its reason"}
	}
	var found []string
	for _, imported := range imports {
		ours, ok := strings.CutPrefix(imported, module+"/")
		if !ok {
			continue
		}
		if to, ok := row(ours); !ok || to != from && !slices.Contains(mayImport[from], to) {
			found = append(found, pkg+" must not import "+ours)
		}
	}
	return found
}

func TestPackagesImportOnlyWhatTheTableAllows(t *testing.T) {
	t.Parallel()
	imports := importsByFolder(t, "..")
	if len(imports) == 0 {
		t.Fatal("no Go file was found")
	}
	for _, pkg := range slices.Sorted(maps.Keys(imports)) {
		for _, fault := range faults(pkg, imports[pkg]) {
			t.Error(fault)
		}
	}
}

func TestTableHoldsNoPackageThatItDoesNotDescribe(t *testing.T) {
	t.Parallel()
	for pkg, allowed := range mayImport {
		for _, to := range allowed {
			if _, ok := mayImport[to]; !ok {
				t.Errorf("%s may import %s, which has no row", pkg, to)
			}
		}
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		pkg     string
		imports []string
		want    []string
	}{
		{"what the row allows", "internal/psp", []string{"context", "chargeonce/internal/telemetry"}, nil},
		{"a folder below a row imports its own row", "api/payments/v1/client", []string{"chargeonce/api/payments/v1"}, nil},
		{"a folder below an allowed row", "internal/server", []string{"chargeonce/api/payments/v1/client"}, nil},
		{"what the row does not allow", "internal/psp", []string{"chargeonce/internal/payment"},
			[]string{"internal/psp must not import internal/payment"}},
		{"a name that only begins like an allowed one", "internal/psp", []string{"chargeonce/internal/telemetrics"},
			[]string{"internal/psp must not import internal/telemetrics"}},
		{"the simulator imports ours", "gateway-sim", []string{"chargeonce/webhook"},
			[]string{"gateway-sim must not import webhook"}},
		{"a package without a row", "internal/utils", nil,
			[]string{"internal/utils is not in the table: add a line to mayImport and to the design's table, with its reason"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, faults(tt.pkg, tt.imports)); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

func TestProductHoldsNothingOfTheLab(t *testing.T) {
	t.Parallel()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "./cmd/chargeonce")
	list.Dir, list.Stderr = "..", os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("list what cmd/chargeonce is made of: %v", err)
	}
	for _, dependency := range strings.Fields(string(out)) {
		for _, unwanted := range notInTheProduct {
			if dependency == unwanted || strings.HasPrefix(dependency, unwanted+"/") {
				t.Errorf("cmd/chargeonce must not reach %s", dependency)
			}
		}
	}
}

// importsByFolder returns what the Go files below root import, tests left out, by their folder. Files are read whatever
// system they are for; modules of their own are not entered.
func importsByFolder(t *testing.T, root string) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return enter(root, file)
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		folder, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(folder)
		imports := found[pkg]
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			imports = append(imports, imported)
		}
		found[pkg] = imports
		return nil
	})
	if err != nil {
		t.Fatalf("read the Go files: %v", err)
	}
	for pkg, imports := range found {
		slices.Sort(imports)
		found[pkg] = slices.Compact(imports)
	}
	return found
}

// enter returns fs.SkipDir for a folder whose Go files are not of this module: as the go command has it, one that begins with
// a dot or an underscore, testdata, and another module.
func enter(root, folder string) error {
	if folder == root {
		return nil
	}
	name := filepath.Base(folder)
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" {
		return fs.SkipDir
	}
	_, err := os.Stat(filepath.Join(folder, "go.mod"))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return fs.SkipDir
}
