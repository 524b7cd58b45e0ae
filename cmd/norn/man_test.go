package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra/doc"

	"github.com/norn-dev/norn/cmd/norn/cli"
)

var manTo = flag.String("man", "", "write the man pages into this directory (make release)")

// TestManPages: each command has a man page, made from its help.
func TestManPages(t *testing.T) {
	dir := *manTo
	if dir == "" {
		dir = t.TempDir()
	}
	root := (&app{&cli.App{Out: &bytes.Buffer{}}}).root()
	root.DisableAutoGenTag = true
	for _, c := range root.Commands() {
		if c.Name() == "completion" || c.Name() == "help" {
			root.RemoveCommand(c) // what cobra adds by itself
		}
	}
	date := time.Unix(0, 0).UTC()
	if at, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		date = time.Unix(at, 0).UTC()
	}
	if err := doc.GenManTree(root, &doc.GenManHeader{Title: "NORN", Section: "1", Date: &date, Source: "norn " + version, Manual: "Norn"}, dir); err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || len(pages) < 80 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for name, want := range map[string][]string{
		"norn.1":              {"SYNOPSIS", "Exit codes", "norn-server(1)"},
		"norn-server.1":       {"--bootstrap-expect", "SIGTERM"},
		"norn-task-enqueue.1": {"EXAMPLE", "--key"},
	} {
		page := strings.ReplaceAll(read(t, filepath.Join(dir, name)), `\-`, "-")
		for _, w := range want {
			if !strings.Contains(page, w) {
				t.Errorf("%s does not have %q", name, w)
			}
		}
	}
}
