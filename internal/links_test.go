package internal_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var relativeLink = regexp.MustCompile(`\]\(([^)#:\s]+)(?:#[^)\s]*)?\)`)

// Every relative link in a page of the repository leads to a file that is there.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("git", "-C", "..", "ls-files", "--cached", "--others", "--exclude-standard", "*.md").Output()
	if err != nil {
		t.Fatal(err)
	}
	links := 0
	for page := range strings.FieldsSeq(string(out)) {
		text, err := os.ReadFile(filepath.Join("..", page))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range relativeLink.FindAllStringSubmatch(string(text), -1) {
			links++
			if _, err := os.Stat(filepath.Join("..", filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s: %s: %v", page, m[1], err)
			}
		}
	}
	if links == 0 {
		t.Error("no links were found")
	}
}
