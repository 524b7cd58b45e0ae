package house

import (
	"go/ast"
	"go/types"
	"strings"
)

// typed knows the types of our own packages as far as they follow from our own
// source. What other modules declare is unknown to it, so it answers nil there:
// that is enough to tell a map of ours, and needs no compiled packages.
type typed struct {
	tree *Tree
	pkgs map[string]*types.Package
	seen map[string]*types.Info
}

func newTypes(t *Tree) *typed {
	return &typed{tree: t, pkgs: map[string]*types.Package{}, seen: map[string]*types.Info{}}
}

// info gives what is known of the types in a directory.
func (d *typed) info(dir string) *types.Info {
	d.check(dir)
	return d.seen[dir]
}

// Import resolves an import of ours from the tree, any other to an empty
// package.
func (d *typed) Import(importPath string) (*types.Package, error) {
	if dir, ours := strings.CutPrefix(importPath, Module+"/"); ours {
		return d.check(dir), nil
	}
	p := types.NewPackage(importPath, baseName(importPath))
	p.MarkComplete()
	return p, nil
}

func (d *typed) check(dir string) *types.Package {
	if p, ok := d.pkgs[dir]; ok {
		return p
	}
	d.pkgs[dir] = types.NewPackage(Module+"/"+dir, baseName(dir)) // for an import cycle
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
	d.seen[dir] = info
	var files []*ast.File
	for _, f := range d.tree.Files {
		if f.Syntax != nil && !f.IsTest() && f.Dir() == dir {
			files = append(files, f.Syntax)
		}
	}
	conf := types.Config{Importer: d, Error: func(error) {}, DisableUnusedImportCheck: true, FakeImportC: true}
	// Errors are expected, because other modules are unknown here: what could be
	// told is in info nevertheless.
	p, _ := conf.Check(Module+"/"+dir, d.tree.Fset, files, info)
	d.pkgs[dir] = p
	return p
}
