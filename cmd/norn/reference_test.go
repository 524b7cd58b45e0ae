package main

import (
	"bytes"
	"flag"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/norn-dev/norn/cmd/norn/cli"
	"github.com/norn-dev/norn/internal/reference"
)

var rewrite = flag.Bool("rewrite", false, "write docs/reference/commands.md instead of comparing it")

// TestCommandsPageIsCurrent: docs/reference/commands.md says what the help says.
func TestCommandsPageIsCurrent(t *testing.T) {
	page := reference.Commands((&app{&cli.App{Out: &bytes.Buffer{}}}).root())
	if err := reference.Compare("../../docs/reference/commands.md", page, *rewrite); err != nil {
		t.Error(err)
	}
}

// TestMetricsOfAServerAreOnThePage: what a server tells is in docs/reference/metrics.md.
func TestMetricsOfAServerAreOnThePage(t *testing.T) {
	known, err := reference.MetricNames("../..")
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get("http://" + the.server.http + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) > 2 && fields[1] == "HELP" && strings.HasPrefix(fields[2], "norn_") {
			if seen++; known[fields[2]] == "" {
				t.Errorf("%s is not on the page", fields[2])
			}
		}
	}
	if seen < 30 {
		t.Errorf("%d metrics", seen)
	}
}
