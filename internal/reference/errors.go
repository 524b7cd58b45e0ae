package reference

import (
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var kindLine = regexp.MustCompile(`^  ERROR_KIND_([A-Z_]+) = (\d+);`)

// Errors is the page of errors: kinds of the wire, values of the Go client, exit codes.
func Errors(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, "proto/norn/v1/error.proto"))
	if err != nil {
		return "", fmt.Errorf("reference: %w", err)
	}
	b := head("Errors", prose("For whoever writes a program or a script. Every error has a kind and a message of one line that says what to do. "+
		"Whether the request may have been done is its **effect**: `none`, `unknown` or `partial`. Unknown is not failed: repeat the request "+
		"with the same ID or token. [The protocol](protocol.md#errors) says which kinds may be tried again."))
	b.WriteString("## Kinds\n\n| number | kind | meaning |\n|---|---|---|\n")
	said := ""
	for line := range strings.Lines(string(text)) {
		if c, ok := strings.CutPrefix(strings.TrimSpace(line), "//"); ok {
			said += c
		} else {
			if m := kindLine.FindStringSubmatch(line); m != nil && m[2] != "0" {
				fmt.Fprintf(b, "| %s | `%s` | %s |\n", m[2], m[1], cell(said))
			}
			said = ""
		}
	}
	b.WriteString("\n## In Go\n\n" + prose("Values of package `client`, for `errors.Is`.") + "\n\n| error | returned when |\n|---|---|\n")
	f, err := source(filepath.Join(root, "client/errors.go"))
	if err != nil {
		return "", err
	}
	values(f, func(name, doc string, _ ast.Expr) {
		if _, when, ok := strings.Cut(doc, "when "); ok && strings.HasPrefix(name, "Err") {
			fmt.Fprintf(b, "| `%s` | %s |\n", name, cell(when))
		}
	})
	b.WriteString("\n## Exit codes\n\n| code | of a command that |\n|---|---|\n")
	for _, c := range []struct {
		code int
		says string
	}{
		{0, "did what it was asked for"},
		{1, "failed"},
		{2, "was called in a wrong way (`norn server`: 64), or a panic of a server"},
		{3, "names something that is not there"},
		{4, "found no server, no leader or no majority"},
		{5, "met a conflict: the ID is taken, the claim is lost, the state does not allow it"},
		{6, "was refused because a limit is reached"},
		{64, "is a server with a mistake in its configuration"},
		{70, "is a server that found damage on its disk, or lost the disk"},
		{71, "is a worker that cannot start commands on this machine"},
	} {
		fmt.Fprintf(b, "| %d | %s |\n", c.code, c.says)
	}
	return b.String(), nil
}

// values calls look with each exported constant or variable of a file, its comment and its value.
func values(f *ast.File, look func(name, doc string, value ast.Expr)) {
	for _, d := range f.Decls {
		gen, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		doc := ""
		for _, s := range gen.Specs {
			v, ok := s.(*ast.ValueSpec)
			if !ok {
				continue
			}
			if v.Doc != nil {
				doc = v.Doc.Text()
			}
			for i, name := range v.Names {
				if name.IsExported() && i < len(v.Values) {
					look(name.Name, doc, v.Values[i])
				}
			}
		}
	}
}
