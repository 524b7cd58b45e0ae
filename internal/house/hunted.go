package house

import (
	"go/ast"
	"strings"
)

// quarries is the list of mistakes with the tests that are there for them: a call
// by(package, "TestA|TestB", mistake) for each. Package jepsen/hunt runs those tests by name.
const quarries = "jepsen/hunt/quarries.go"

// Quarries reports tests that the hunt would run and that are not in the package it names.
// `go test -run` passes when no test has such a name: a test that is renamed or goes to
// another package would leave its mistake without anything that finds it.
func Quarries(t *Tree) []Problem {
	f := t.File(quarries)
	if f == nil || f.Syntax == nil {
		return nil
	}
	tests := testNames(t)
	var out []Problem
	ast.Inspect(f.Syntax, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || !isIdent(call.Fun, "by") || len(call.Args) < 2 {
			return true
		}
		pkg, okPkg := literal(call.Args[0])
		names, okNames := literal(call.Args[1])
		for name := range strings.SplitSeq(names, "|") {
			if okPkg && okNames && tests[pkg+"."+name] {
				continue
			}
			p := t.at(f, call.Pos(), "quarries", "%s has no test %s", pkg, name)
			p.Why = "the hunt runs it by this name, and a name that no test has passes: nothing finds the mistake any more"
			p.Do = "name the package where the test is now, or the test that is there instead of it, as literals"
			out = append(out, p)
		}
		return true
	})
	return out
}

// testNames are the tests of all packages, each as "directory.TestName".
func testNames(t *Tree) map[string]bool {
	out := map[string]bool{}
	for _, f := range t.Go(true) {
		if !f.IsTest() {
			continue
		}
		for _, d := range f.Syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Body != nil && isTestFunc(fn) {
				out[f.Dir()+"."+fn.Name.Name] = true
			}
		}
	}
	return out
}
