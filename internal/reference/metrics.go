package reference

import (
	"fmt"
	"go/ast"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// metricDirs are where a server's metrics are declared.
var metricDirs = []string{"node", "web", "internal", "cmd/norn/serve", "register", "store", "transport"}

var metricName = regexp.MustCompile(`^norn_[a-z0-9_]+[a-z0-9]$`)

// MetricNames are the metrics that the source of a server declares, with their help: a
// name, and the string after it in the same call or literal.
func MetricNames(root string) (map[string]string, error) {
	out := map[string]string{}
	for _, dir := range metricDirs {
		files, err := sources(root, dir)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			ast.Inspect(f, func(n ast.Node) bool {
				var list []ast.Expr
				switch n := n.(type) {
				case *ast.CallExpr:
					list = n.Args
				case *ast.CompositeLit:
					list = n.Elts
				}
				for i, e := range list {
					if name, ok := literal(e); ok && metricName.MatchString(name) && i+1 < len(list) {
						if help, ok := literal(list[i+1]); ok && strings.Contains(help, " ") {
							out[name] = help
						}
					}
				}
				return true
			})
		}
	}
	return out, nil
}

// Metrics is the page of a server's metrics.
func Metrics(root string) (string, error) {
	all, err := MetricNames(root)
	if err != nil {
		return "", err
	}
	b := head("Metrics", prose("For whoever watches a server. `/metrics` of the HTTP port has these, in the form of Prometheus; what Go and its "+
		"runtime tell of a process comes with them. A name that ends in `_total` is a counter. [Operating](../how-to/operating.md) has the "+
		"alarms and what to do about each."))
	b.WriteString("| metric | what it says |\n|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(b, "| `%s` | %s |\n", name, cell(all[name]))
	}
	return b.String(), nil
}
