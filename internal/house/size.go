package house

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

// Limits of the house. The figures are the ones of CONTRIBUTING.md.
const (
	maxFileLines        = 600
	maxFunctionLines    = 70
	maxInterfaceMethods = 6
	maxTypeMethods      = 40
	maxMutexes          = 2
)

// longBecause is the mark of a function that is deliberately longer.
const longBecause = "Long because:"

// FileLengths reports files over 600 lines.
func FileLengths(t *Tree) []Problem {
	var out []Problem
	for _, f := range t.Go(true) {
		if n := f.Lines(); n > maxFileLines {
			out = append(out, Problem{
				Path: f.Path, Rule: "file-length", What: fmt.Sprintf("%d lines, over %d", n, maxFileLines),
				Why: "nobody reads a file of that length as a whole", Do: "split it where its purpose changes; 150 lines are usual, 400 are many",
			})
		}
	}
	return out
}

// LengthReport gives the median, the 90th percentile and the longest of the
// lengths of the files that people wrote, in lines, tests apart.
func LengthReport(t *Tree) string {
	report := func(name string, tests bool) string {
		var n []int
		for _, f := range t.Go(true) {
			if f.IsTest() == tests {
				n = append(n, f.Lines())
			}
		}
		if len(n) == 0 {
			return name + ": none"
		}
		slices.Sort(n)
		return fmt.Sprintf("%s: %d files, median %d, p90 %d, longest %d lines", name, len(n), n[len(n)/2], n[len(n)*9/10], n[len(n)-1])
	}
	return report("source", false) + "; " + report("tests", true) + " (aim: median 150, p90 400)"
}

// FunctionLengths reports functions over 70 lines that do not say why.
func FunctionLengths(t *Tree) []Problem {
	var out []Problem
	for _, f := range t.Go(true) {
		for _, d := range f.Syntax.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			n := t.Fset.Position(fn.End()).Line - t.Fset.Position(fn.Pos()).Line + 1
			if n <= maxFunctionLines || t.marked(f, fn.Pos(), longBecause) {
				continue
			}
			p := t.at(f, fn.Pos(), "function-length", "function %s has %d lines, over %d", fn.Name.Name, n, maxFunctionLines)
			p.Why = "a function should fit a screen"
			p.Do = "split it by what it does; if it is read best in one piece, say why directly above: `// " + longBecause + " …`"
			out = append(out, p)
		}
	}
	return out
}

// InterfaceSizes reports interfaces with more than six methods, those of
// embedded interfaces of the same package included.
func InterfaceSizes(t *Tree) []Problem {
	declared := map[string]*ast.InterfaceType{} // dir + "." + name
	eachType(t, func(f *File, s *ast.TypeSpec) {
		if i, ok := s.Type.(*ast.InterfaceType); ok {
			declared[f.Dir()+"."+s.Name.Name] = i
		}
	})
	var count func(dir string, i *ast.InterfaceType, depth int) int
	count = func(dir string, i *ast.InterfaceType, depth int) int {
		n := 0
		for _, m := range i.Methods.List {
			switch typ := m.Type.(type) {
			case *ast.FuncType:
				n += len(m.Names)
			case *ast.Ident:
				if e := declared[dir+"."+typ.Name]; e != nil && depth < maxInterfaceMethods {
					n += count(dir, e, depth+1)
				}
			case *ast.SelectorExpr:
				n++
			}
		}
		return n
	}
	var out []Problem
	eachType(t, func(f *File, s *ast.TypeSpec) {
		i, ok := s.Type.(*ast.InterfaceType)
		if !ok {
			return
		}
		if n := count(f.Dir(), i, 0); n > maxInterfaceMethods {
			p := t.at(f, s.Pos(), "interface-size", "interface %s has %d methods, over %d", s.Name.Name, n, maxInterfaceMethods)
			p.Why = "a large interface has one implementation and many fakes that lie"
			p.Do = "let each consumer declare the two or three methods it calls"
			out = append(out, p)
		}
	})
	return out
}

// TypeSizes reports types with more than 40 methods.
func TypeSizes(t *Tree) []Problem {
	count := map[string]int{}
	for _, f := range t.Go(false) {
		for _, d := range f.Syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
				count[f.Dir()+"."+receiver(fn)]++
			}
		}
	}
	var out []Problem
	eachType(t, func(f *File, s *ast.TypeSpec) {
		if n := count[f.Dir()+"."+s.Name.Name]; n > maxTypeMethods {
			p := t.at(f, s.Pos(), "type-size", "type %s has %d methods, over %d", s.Name.Name, n, maxTypeMethods)
			p.Why = "such a type is several things that share their fields"
			p.Do = "move what belongs together into a type of its own"
			out = append(out, p)
		}
	})
	return out
}

// Mutexes reports structs with more than two mutexes, and mutexes without a
// comment that says what they guard.
func Mutexes(t *Tree) []Problem {
	var out []Problem
	eachType(t, func(f *File, s *ast.TypeSpec) {
		st, ok := s.Type.(*ast.StructType)
		pkg := f.importName("sync")
		if !ok || pkg == "" {
			return
		}
		n := 0
		ast.Inspect(st, func(node ast.Node) bool {
			field, ok := node.(*ast.Field)
			if !ok || !isMutex(pkg, field.Type) {
				return true
			}
			n += max(1, len(field.Names))
			if field.Doc == nil && field.Comment == nil {
				p := t.at(f, field.Pos(), "mutex", "a mutex of %s does not say what it guards", s.Name.Name)
				p.Why = "the next reader has to guess which fields need it"
				p.Do = "add a comment to the field: `mu sync.Mutex // guards …`"
				out = append(out, p)
			}
			return true
		})
		if n > maxMutexes {
			p := t.at(f, s.Pos(), "mutex", "struct %s has %d mutexes, over %d", s.Name.Name, n, maxMutexes)
			p.Why = "three locks in one struct need an order, and an order needs a document"
			p.Do = "give each lock a type of its own with the fields it guards"
			out = append(out, p)
		}
	})
	return out
}

func isMutex(pkg string, e ast.Expr) bool {
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	sel, ok := e.(*ast.SelectorExpr)
	return ok && isIdent(sel.X, pkg) && strings.HasSuffix(sel.Sel.Name, "Mutex")
}

// eachType calls fn with every type declaration outside tests.
func eachType(t *Tree, fn func(*File, *ast.TypeSpec)) {
	for _, f := range t.Go(false) {
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			if s, ok := n.(*ast.TypeSpec); ok {
				fn(f, s)
			}
			return true
		})
	}
}

// receiver is the name of the type that a method belongs to.
func receiver(fn *ast.FuncDecl) string {
	e := fn.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}
