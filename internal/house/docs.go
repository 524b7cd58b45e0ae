package house

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
)

// vague are names of packages that say nothing about what is inside.
var vague = []string{"util", "utils", "common", "types", "helper", "helpers", "manager", "managers", "misc"}

// PackageNames reports packages named after nothing.
func PackageNames(t *Tree) []Problem {
	var out []Problem
	for _, f := range t.Go(true) {
		name := strings.TrimSuffix(f.Syntax.Name.Name, "_test")
		if i := slices.IndexFunc([]string{name, path.Base(f.Dir())}, func(s string) bool { return slices.Contains(vague, s) }); i >= 0 {
			p := t.at(f, f.Syntax.Package, "package-name", "package %s in %s", name, f.Dir())
			p.Why = "a name that fits everything collects everything"
			p.Do = "name the package after what it knows, in one sentence of its doc.go"
			out = append(out, p)
		}
	}
	return out
}

// PackageDocs reports packages without a doc.go that says what they are for.
func PackageDocs(t *Tree) []Problem {
	first, documented := map[string]*File{}, map[string]bool{}
	var dirs []string
	for _, f := range t.Files {
		if f.Syntax == nil || f.IsTest() {
			continue
		}
		if first[f.Dir()] == nil {
			first[f.Dir()] = f
			dirs = append(dirs, f.Dir())
		}
		if path.Base(f.Path) == "doc.go" && f.Syntax.Doc != nil {
			text := f.Syntax.Doc.Text()
			documented[f.Dir()] = strings.HasPrefix(text, "Package "+f.Syntax.Name.Name+" ") ||
				f.Syntax.Name.Name == "main" && len(text) > 0
		}
	}
	var out []Problem
	for _, dir := range dirs {
		if !documented[dir] {
			p := t.at(first[dir], first[dir].Syntax.Package, "doc.go", "%s has no doc.go with a package comment `Package %s …`", dir, first[dir].Syntax.Name.Name)
			p.Why = "the purpose and the contract of a package are read before its code"
			p.Do = "write doc.go: one sentence of purpose first, then what callers may rely on"
			out = append(out, p)
		}
	}
	return out
}

// ExportedDocs reports exported names, and fields of configuration, without a
// docstring. Methods of unexported types are exempt: most of them fulfil an
// interface that is documented.
func ExportedDocs(t *Tree) []Problem {
	var out []Problem
	for _, f := range t.Go(false) {
		add := func(n ast.Node, kind, name string) {
			p := t.at(f, n.Pos(), "docstring", "%s %s has no comment", kind, name)
			p.Why = "the next caller needs shapes, units and errors, not the code"
			p.Do = "say what it is or gives, in which unit, and when it fails"
			out = append(out, p)
		}
		for _, d := range f.Syntax.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && d.Doc == nil && (d.Recv == nil || ast.IsExported(receiver(d))) {
					add(d, "function", d.Name.Name)
				}
			case *ast.GenDecl:
				undocumented(d, add)
			}
		}
	}
	return out
}

func undocumented(d *ast.GenDecl, add func(ast.Node, string, string)) {
	for _, s := range d.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() && s.Doc == nil && (d.Doc == nil || len(d.Specs) > 1) && s.Comment == nil {
				add(s, "type", s.Name.Name)
			}
			if st, ok := s.Type.(*ast.StructType); ok && isConfig(s.Name.Name) {
				undocumentedFields(s.Name.Name, st, add)
			}
		case *ast.ValueSpec:
			for _, n := range s.Names {
				if n.IsExported() && s.Doc == nil && s.Comment == nil && d.Doc == nil {
					add(n, map[token.Token]string{token.CONST: "constant", token.VAR: "variable"}[d.Tok], n.Name)
				}
			}
		}
	}
}

func isConfig(name string) bool {
	return ast.IsExported(name) && (strings.HasSuffix(name, "Config") || strings.HasSuffix(name, "Options"))
}

func undocumentedFields(owner string, st *ast.StructType, add func(ast.Node, string, string)) {
	for _, field := range st.Fields.List {
		for _, n := range field.Names {
			if n.IsExported() && field.Doc == nil && field.Comment == nil {
				add(n, "setting", owner+"."+n.Name)
			}
		}
	}
}

// NoInit reports init functions.
func NoInit(t *Tree) []Problem {
	var out []Problem
	for _, f := range t.Go(true) {
		for _, d := range f.Syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				p := t.at(f, fn.Pos(), "no-init", "func init")
				p.Why = "importing a package must do nothing: what runs before main cannot be configured, ordered or tested"
				p.Do = "do it in a constructor that the caller calls"
				out = append(out, p)
			}
		}
	}
	return out
}
