package house

import (
	"go/ast"
	"slices"
	"strings"
)

// NoSleep reports time.Sleep in tests. In a synctest bubble time is simulated
// and Sleep is the way to let it pass, so a file that imports testing/synctest
// is exempt.
func NoSleep(t *Tree) []Problem {
	var out []Problem
	for _, f := range t.Go(true) {
		name := f.importName("time")
		if !f.IsTest() || name == "" || f.importName("testing/synctest") != "" {
			continue
		}
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Sleep" && isIdent(sel.X, name) {
				p := t.at(f, sel.Pos(), "no-sleep", "time.Sleep in a test")
				p.Why = "a sleep is too short on a busy machine and too long on every other"
				p.Do = "wait for the event itself (a channel, a condition with a deadline), or run in a testing/synctest bubble"
				out = append(out, p)
			}
			return true
		})
	}
	return out
}

// failing are the methods by which a test says that something is wrong.
var failing = []string{"Error", "Errorf", "Fatal", "Fatalf", "Fail", "FailNow"}

// Assertions reports tests that cannot fail: they neither call a failing
// method of their testing.T (or rapid.T), nor hand it to anything that could.
func Assertions(t *Tree) []Problem {
	var out []Problem
	for _, f := range t.Go(true) {
		if !f.IsTest() {
			continue
		}
		for _, d := range f.Syntax.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv != nil || fn.Body == nil || !isTestFunc(fn) || canFail(fn) {
				continue
			}
			p := t.at(f, fn.Pos(), "assertion", "%s asserts nothing", fn.Name.Name)
			p.Why = "a test that cannot fail is no evidence"
			p.Do = "compare what happened with what should have, and call t.Errorf or t.Fatalf"
			out = append(out, p)
		}
	}
	return out
}

// isTestFunc reports whether go test runs fn as a test. Fuzz targets are left
// out: that nothing panics is an assertion of theirs.
func isTestFunc(fn *ast.FuncDecl) bool {
	rest, ok := strings.CutPrefix(fn.Name.Name, "Test")
	if !ok || rest == "Main" || len(fn.Type.Params.List) != 1 || rest != "" && 'a' <= rest[0] && rest[0] <= 'z' {
		return false
	}
	return isTesting(fn.Type.Params.List[0].Type)
}

// isTesting reports whether a parameter type is one that tests fail by.
func isTesting(e ast.Expr) bool {
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	sel, ok := e.(*ast.SelectorExpr)
	return ok && slices.Contains([]string{"T", "B", "F", "TB"}, sel.Sel.Name) && isIdent(sel.X, "testing", "rapid")
}

// canFail looks for a call of a failing method on a test parameter, or a call
// that such a parameter is handed to. Runners, which only hand a fresh
// parameter to a function literal, do not count: that literal is looked at.
func canFail(fn *ast.FuncDecl) bool {
	names := map[string]bool{}
	ast.Inspect(fn, func(n ast.Node) bool {
		if typ, ok := n.(*ast.FuncType); ok {
			for _, p := range typ.Params.List {
				for _, name := range p.Names {
					if isTesting(p.Type) {
						names[name.Name] = true
					}
				}
			}
		}
		return true
	})
	found := false
	isT := func(e ast.Expr) bool {
		id, ok := e.(*ast.Ident)
		return ok && names[id.Name]
	}
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			found = found || isT(n.X) && slices.Contains(failing, n.Sel.Name)
		case *ast.CallExpr:
			found = found || !isRunner(n) && slices.ContainsFunc(n.Args, isT)
			// t.Run(name, aNamedFunction): that function is judged by its readers.
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok && isT(sel.X) && sel.Sel.Name == "Run" && !isRunner(n) {
				found = true
			}
		}
		return !found
	})
	return found
}

// isRunner reports whether a call hands a test parameter to a literal.
func isRunner(call *ast.CallExpr) bool {
	return slices.ContainsFunc(call.Args, func(a ast.Expr) bool {
		lit, ok := a.(*ast.FuncLit)
		return ok && slices.ContainsFunc(lit.Type.Params.List, func(p *ast.Field) bool { return isTesting(p.Type) })
	})
}
