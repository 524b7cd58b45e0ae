package house

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Module is the path of this module.
const Module = "github.com/norn-dev/norn"

// maxText is the size in bytes above which a file is not read as text: no
// source or document of ours is near it.
const maxText = 2 << 20

// File is one text file of the tree.
type File struct {
	Path   string // relative to the root, with slashes
	Source []byte
	// Syntax is the parsed Go source with comments; nil when the file is not Go,
	// the go command ignores it, or it does not parse (then Err says why).
	Syntax *ast.File
	Err    error
}

// Tree is the source of a repository.
type Tree struct {
	Fset  *token.FileSet
	Files []*File // sorted by path
	// Paths are all files, those not read as text included.
	Paths map[string]bool
}

// skipped are directories that hold no source: what tools and servers write.
var skipped = []string{".git", "bin", "node_modules", "vendor", "norn-data", "norn-dev"}

// Load reads the tree below root.
func Load(root string) (*Tree, error) {
	sources, others := map[string][]byte{}, []string{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == root {
			return err
		}
		if d.IsDir() {
			if slices.Contains(skipped, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if d.Name() == ".git" { // of a worktree: a file with the place of the repository
			return nil
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		info, err := d.Info()
		if err != nil || !info.Mode().IsRegular() || info.Size() > maxText {
			others = append(others, rel)
			return err
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if bytes.IndexByte(b, 0) >= 0 {
			others = append(others, rel)
			return nil
		}
		sources[rel] = b
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("house: reading the tree: %w", err)
	}
	t := New(sources)
	for _, p := range others {
		t.Paths[p] = true
	}
	return t, nil
}

// New makes a tree of sources, a map from path to content.
func New(sources map[string][]byte) *Tree {
	t := &Tree{Fset: token.NewFileSet(), Paths: map[string]bool{}}
	for _, p := range slices.Sorted(maps.Keys(sources)) {
		f := &File{Path: p, Source: sources[p]}
		if strings.HasSuffix(p, ".go") && !ignored(p) {
			f.Syntax, f.Err = parser.ParseFile(t.Fset, p, f.Source, parser.ParseComments|parser.SkipObjectResolution)
			if f.Err != nil {
				f.Syntax = nil
			}
		}
		t.Files = append(t.Files, f)
		t.Paths[p] = true
	}
	return t
}

// ignored reports whether the go command does not look at a file: below a
// testdata directory, or one whose name begins with a dot or an underscore.
func ignored(p string) bool {
	return slices.ContainsFunc(strings.Split(p, "/"), func(e string) bool {
		return e == "testdata" || e[0] == '.' || e[0] == '_'
	})
}

// Dir is the directory of the file, "." for the root.
func (f *File) Dir() string { return path.Dir(f.Path) }

// IsTest reports whether the file is compiled for tests only.
func (f *File) IsTest() bool { return strings.HasSuffix(f.Path, "_test.go") }

// Lines is the number of lines.
func (f *File) Lines() int { return bytes.Count(f.Source, []byte("\n")) }

// generated reports whether a tool has written the file.
func (f *File) generated() bool {
	return strings.HasSuffix(f.Path, ".pb.go") || f.Syntax != nil && ast.IsGenerated(f.Syntax)
}

// Go gives the parsed Go files that people wrote, those of tests only on
// demand.
func (t *Tree) Go(tests bool) []*File {
	var out []*File
	for _, f := range t.Files {
		if f.Syntax != nil && !f.generated() && (tests || !f.IsTest()) {
			out = append(out, f)
		}
	}
	return out
}

// File gives the file with this path, or nil.
func (t *Tree) File(p string) *File {
	i := slices.IndexFunc(t.Files, func(f *File) bool { return f.Path == p })
	if i < 0 {
		return nil
	}
	return t.Files[i]
}

// importName is the name by which the file speaks of an import, "" when it
// does not import it. It knows only names that follow from the path.
func (f *File) importName(importPath string) string {
	for _, s := range f.Syntax.Imports {
		p, err := strconv.Unquote(s.Path.Value)
		if err != nil || p != importPath {
			continue
		}
		if s.Name != nil {
			return s.Name.Name
		}
		return baseName(p)
	}
	return ""
}

// baseName is the usual package name of an import path: its last element, or
// the one before a major version.
func baseName(p string) string {
	base := path.Base(p)
	if len(base) > 1 && base[0] == 'v' && strings.Trim(base[1:], "0123456789") == "" {
		return path.Base(path.Dir(p))
	}
	return base
}

// Parses reports files that are not Go although they are called so.
func Parses(t *Tree) []Problem {
	var out []Problem
	for _, f := range t.Files {
		if f.Err != nil {
			out = append(out, Problem{
				Path: f.Path, Rule: "parse", What: f.Err.Error(),
				Why: "no other rule can look at a file that does not parse", Do: "repair the syntax",
			})
		}
	}
	return out
}
