package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/norn-dev/norn/clients/conformance"
)

// conformanceCases is the list that the clients in all languages run.
func conformanceCases(t *testing.T) []conformance.Case {
	t.Helper()
	cases, err := conformance.Load("../../clients/conformance/cases.yaml")
	if err != nil || len(cases) == 0 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	return cases
}

// TestConformance has the client in Go do what every client does, against a real server and
// one that lies.
func TestConformance(t *testing.T) {
	beside(t)
	for _, c := range conformanceCases(t) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			if err := c.Run(t.Context(), the.server.addr); err != nil {
				t.Error(err)
			}
		})
	}
}

// buildLiar builds the server that lies, for clients in other languages.
func buildLiar(t *testing.T) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "liar")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", to, "../../internal/liar/cmd").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return to
}

// inPath is the first of the programs that is installed; the test is skipped without one.
func inPath(t *testing.T, programs ...string) string {
	t.Helper()
	for _, name := range programs {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skipf("no %s", programs[0])
	return ""
}

// pageBlock is a fenced block of Python or TypeScript on a page.
var pageBlock = regexp.MustCompile("(?ms)^```(python|typescript)\n(.*?)^```$")

// TestClientPages checks that what the pages of the clients show stands in an example, which
// the tests of the clients run; indentation does not count.
func TestClientPages(t *testing.T) {
	squeeze := func(b []byte) string { return strings.Join(strings.Fields(string(b)), " ") }
	code := ""
	for _, file := range globbed(t, "../../clients/*/examples/*.*") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		code += squeeze(text) + "\n"
	}
	for _, page := range append(globbed(t, "../../clients/[pt]*/README.md"), globbed(t, "../../docs/how-to/[pt]y*.md")...) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		blocks := pageBlock.FindAllSubmatch(text, -1)
		if len(blocks) == 0 {
			t.Errorf("%s shows no code", page)
		}
		for _, b := range blocks {
			if !strings.Contains(code, squeeze(b[2])) {
				t.Errorf("%s: this stands in no example:\n%s", page, b[2])
			}
		}
	}
}

// globbed are the files that a pattern finds, at least one.
func globbed(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", pattern, len(files), err)
	}
	return files
}
