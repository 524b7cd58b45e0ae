package house

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// coverageFile is the table of requirements and their evidence.
const coverageFile = "docs/contributors/coverage.md"

// requirements are the numbers that the table must hold: 1 to 118 and 135 to
// 186. Numbers 119 to 134 were never given out.
func requirements() []int {
	var out []int
	for n := 1; n <= 186; n++ {
		if n <= 118 || n >= 135 {
			out = append(out, n)
		}
	}
	return out
}

// quoted finds the names in the evidence column.
var quoted = regexp.MustCompile("`([^`]+)`")

// Coverage checks docs/contributors/coverage.md: every requirement has exactly one row
// `| N | promise | shown or open | evidence |`; a row that says shown names
// its evidence in backticks; and whatever stands in backticks exists: a test,
// fuzz target or benchmark (`TestX`, `TestX/case`, `dir.TestX`), a file of the
// tree, or a target of the Makefile (`make sim`).
func Coverage(t *Tree) []Problem {
	var out []Problem
	add := func(line int, what, do string) {
		out = append(out, Problem{
			Path: coverageFile, Line: line, Rule: "coverage", What: what,
			Why: "the table is the only place that tells a promise that is kept from one that is hoped for", Do: do,
		})
	}
	f := t.File(coverageFile)
	if f == nil {
		add(0, "the file is missing", "write the table `| N | promise | shown or open | evidence |`")
		return out
	}
	known, seen := newEvidence(t), map[int]int{}
	for i, line := range strings.Split(string(f.Source), "\n") {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		n, err := strconv.Atoi(strings.TrimSpace(cells[0]))
		if err != nil || !strings.HasPrefix(line, "|") {
			continue
		}
		if before := seen[n]; before != 0 {
			add(i+1, fmt.Sprintf("number %d stands in line %d already", n, before), "keep one row per number")
		}
		seen[n] = i + 1
		if !slices.Contains(requirements(), n) {
			add(i+1, fmt.Sprintf("there is no requirement %d", n), "numbers are 1 to 118 and 135 to 186")
		}
		if len(cells) != 4 {
			add(i+1, fmt.Sprintf("row %d has %d columns, not 4", n, len(cells)), "write `| N | promise | shown or open | evidence |`; a | inside a cell breaks the table")
			continue
		}
		known.row(n, cells, func(what, do string) { add(i+1, what, do) })
	}
	for _, n := range requirements() {
		if seen[n] == 0 {
			add(0, fmt.Sprintf("number %d is missing", n), "add its row, as open when there is no evidence yet")
		}
	}
	return out
}

// evidence is what the table may name.
type evidence struct {
	tree    *Tree
	tests   map[string][]string // name of a function -> directories that have it
	targets map[string]bool     // of the Makefile
}

func newEvidence(t *Tree) evidence {
	e := evidence{tree: t, tests: map[string][]string{}, targets: map[string]bool{}}
	for _, f := range t.Go(true) {
		for _, d := range f.Syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && f.IsTest() && fn.Recv == nil {
				e.tests[fn.Name.Name] = append(e.tests[fn.Name.Name], f.Dir())
			}
		}
	}
	if m := t.File("Makefile"); m != nil {
		for _, target := range regexp.MustCompile(`(?m)^([a-z][a-z-]*):`).FindAllStringSubmatch(string(m.Source), -1) {
			e.targets[target[1]] = true
		}
	}
	return e
}

func (e evidence) row(n int, cells []string, add func(what, do string)) {
	if strings.TrimSpace(cells[1]) == "" {
		add(fmt.Sprintf("row %d does not say what is promised", n), "copy the promise")
	}
	names := quoted.FindAllStringSubmatch(cells[3], -1)
	switch status := strings.TrimSpace(cells[2]); {
	case status != "shown" && status != "open":
		add(fmt.Sprintf("row %d is %q, neither shown nor open", n, status), "say open until the evidence exists")
	case status == "shown" && len(names) == 0:
		add(fmt.Sprintf("row %d says shown and names no evidence", n), "name a test, file or make target in backticks, or say open")
	}
	for _, m := range names {
		if !e.exists(m[1]) {
			add(fmt.Sprintf("row %d names evidence that does not exist: %s", n, m[1]),
				"name a test function (TestX, TestX/case, dir.TestX), a file of the tree or `make target` that exists")
		}
	}
}

// testName matches what go test runs, with a directory before and a subtest
// behind.
var testName = regexp.MustCompile(`^(?:(.*)\.)?((?:Test|Fuzz|Benchmark|Example)[A-Za-z0-9_]*)(?:/.*)?$`)

func (e evidence) exists(name string) bool {
	if target, ok := strings.CutPrefix(name, "make "); ok {
		return e.targets[strings.Fields(target + " ")[0]]
	}
	if m := testName.FindStringSubmatch(name); m != nil && !strings.Contains(m[2], "/") {
		return slices.ContainsFunc(e.tests[m[2]], func(dir string) bool {
			return m[1] == "" || dir == m[1] || path.Base(dir) == m[1] || strings.HasSuffix(dir, "/"+m[1])
		})
	}
	return e.tree.Paths[name]
}
