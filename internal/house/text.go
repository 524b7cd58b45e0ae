package house

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// home finds absolute paths into somebody's home or working directory. The
// alternatives are bracketed so that this line does not find itself.
var home = regexp.MustCompile(`(?:^|[^A-Za-z0-9_.~/-])(/(?:[r]oot|[h]ome/[a-z][a-z0-9_-]*|[U]sers/[A-Za-z][A-Za-z0-9._-]*|[w]ork/(?:main|shared|notes))(?:/|\b)|[A-Z]:\\[U]sers\\)`)

// MachinePaths reports absolute paths of one machine in any text file.
func MachinePaths(t *Tree) []Problem {
	var out []Problem
	for _, f := range t.Files {
		for i, line := range bytes.Split(f.Source, []byte("\n")) {
			if m := home.FindSubmatch(line); m != nil {
				out = append(out, Problem{
					Path: f.Path, Line: i + 1, Rule: "machine-path", What: fmt.Sprintf("path of one machine: %s", m[1]),
					Why: "it exists on the machine of its author only", Do: "write it relative to the repository, or take it from a flag or the environment",
				})
			}
		}
	}
	return out
}

// Dependencies checks that docs/contributors/dependencies.md gives the reason for every
// module that go.mod requires directly, or that a file imports.
func Dependencies(t *Tree) []Problem {
	mod := t.File("go.mod")
	if mod == nil {
		return nil
	}
	doc := ""
	if f := t.File("docs/contributors/dependencies.md"); f != nil {
		doc = string(f.Source)
	}
	imported := map[string]bool{}
	for _, f := range t.Go(true) {
		for _, s := range f.Syntax.Imports {
			imported[strings.Trim(s.Path.Value, `"`)] = true
		}
	}
	uses := func(module string) bool {
		for ip := range imported {
			if under(ip, module) {
				return true
			}
		}
		return false
	}
	var out []Problem
	for i, line := range strings.Split(string(mod.Source), "\n") {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(fields) < 2 || !strings.Contains(fields[0], ".") || !strings.HasPrefix(fields[1], "v") {
			continue
		}
		module := fields[0]
		if strings.Contains(line, "// indirect") && !uses(module) || strings.Contains(doc, "`"+module+"`") {
			continue
		}
		out = append(out, Problem{
			Path: "go.mod", Line: i + 1, Rule: "dependencies", What: module + " has no line in docs/contributors/dependencies.md",
			Why: "every module is code that we ship and cannot review for free; its reason must outlive the memory of who added it",
			Do:  "add a row with the module in backticks, its licence, and what would be written by hand without it, or drop the dependency",
		})
	}
	return out
}
