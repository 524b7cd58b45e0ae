package reference

import (
	"fmt"
	"go/ast"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/norn-dev/norn/node/config"
)

// Settings is the page of a server's settings: what the flags say, and the comments of the
// fields that hold them.
func Settings(root string) (string, error) {
	comments, err := fieldComments(filepath.Join(root, "node/config/config.go"), "Config")
	if err != nil {
		return "", err
	}
	fields, err := settingFields(filepath.Join(root, "node/config/settings.go"))
	if err != nil {
		return "", err
	}
	def := config.Default()
	b := head("Settings", prose("For whoever configures a server. Each setting is a flag of `norn server`, a key of the YAML file that `--config` "+
		"names, and a variable: `max-payload` is `--max-payload` and `NORN_SERVER_MAX_PAYLOAD`. A flag beats a variable, a variable beats the file. "+
		"`norn server --print-config` prints what counts. `norn.example.yaml` has all of them with comments."))
	for _, s := range def.Settings() {
		value := s.String()
		if value == "" || value == "[]" {
			value = "none"
		}
		says := comments[fields[s.Name]]
		if says == "" {
			says = sentence(strings.ReplaceAll(s.Usage, "`", ""))
		}
		fmt.Fprintf(b, "## %s\n\n%s · default: `%s`\n\n%s\n\n", s.Name, s.Type(), value, prose(named(says, fields)))
	}
	return strings.TrimRight(b.String(), "\n") + "\n", nil
}

// named is a comment with settings in the place of the fields that hold them.
func named(says string, fields map[string]string) string {
	of := map[string]string{}
	for setting, field := range fields {
		of[field] = setting
	}
	return fieldName.ReplaceAllStringFunc(says, func(word string) string {
		if setting := of[word]; setting != "" {
			return "`" + setting + "`"
		}
		return word
	})
}

// fieldName finds words that may be fields: with a capital letter inside, or at the start of
// the comment, where the field's own name stands.
var fieldName = regexp.MustCompile(`^[A-Z][A-Za-z0-9]+|\b[A-Z]+[a-z0-9]+[A-Z][A-Za-z0-9]*\b|\b[A-Z]{2,}[a-z][A-Za-z0-9]*\b`)

// sentence begins with a capital letter and ends with a full stop.
func sentence(s string) string {
	return strings.ToUpper(s[:1]) + strings.TrimSuffix(s[1:], ".") + "."
}

// fieldComments are the comments of a struct's fields, in the names of settings where they
// name other fields.
func fieldComments(file, name string) (map[string]string, error) {
	f, err := source(file)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || spec.Name.Name != name {
			return true
		}
		if st, ok := spec.Type.(*ast.StructType); ok {
			for _, field := range st.Fields.List {
				for _, id := range field.Names {
					out[id.Name] = field.Doc.Text()
				}
			}
		}
		return false
	})
	return out, nil
}

// settingFields are the fields of the configuration by the names of their settings:
// {"listen", "…", str(&c.Listen)}.
func settingFields(file string) (map[string]string, error) {
	f, err := source(file)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok || len(lit.Elts) != 3 {
			return true
		}
		name, ok := literal(lit.Elts[0])
		if !ok {
			return true
		}
		ast.Inspect(lit.Elts[2], func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && out[name] == "" {
				out[name] = sel.Sel.Name
			}
			return true
		})
		return true
	})
	return out, nil
}
