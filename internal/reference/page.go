package reference

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// head begins a page: its title, and who it is for.
func head(title, says string) *strings.Builder {
	var b strings.Builder
	fmt.Fprintf(&b, "<!-- Made from the source by `make reference`; changes here are lost. -->\n\n# %s\n\n%s\n\n", title, says)
	return &b
}

// cell is a text for a cell of a table: on one line, without what ends the cell.
func cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}

// width is the length of lines in generated pages.
const width = 110

// prose is a text in lines that are not too long.
func prose(text string) string {
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		switch {
		case column == 0:
		case column+1+len([]rune(word)) > width:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len([]rune(word))
	}
	return b.String()
}

// sources are the Go files below a directory that ship, in order of their paths.
func sources(root, dir string) ([]*ast.File, error) {
	var names []string
	err := filepath.WalkDir(filepath.Join(root, dir), func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reference: %w", err)
	}
	slices.Sort(names)
	var out []*ast.File
	for _, name := range names {
		f, err := source(name)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// source is one Go file.
func source(name string) (*ast.File, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("reference: %w", err)
	}
	f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("reference: %w", err)
	}
	return f, nil
}

// literal is the value of a string in the source, or of several with + between.
func literal(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		return s, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		x, ok := literal(e.X)
		y, too := literal(e.Y)
		return x + y, ok && too && e.Op == token.ADD
	case *ast.KeyValueExpr:
		return literal(e.Value)
	}
	return "", false
}
