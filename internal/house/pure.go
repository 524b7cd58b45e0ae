package house

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

const (
	whyPure = "a pure package runs unchanged in the deterministic simulator: same inputs, same outputs, on one goroutine"
	doPure  = "take time as a clock value, randomness as a seeded source, and input by a method; leave goroutines, locks, files and sockets to the package that runs it"
)

// impure are imports (and everything below them) that bring the world in.
var impure = []string{
	"os", "net", "sync", "syscall", "crypto/rand", "log", "io/ioutil", "database/sql", "runtime/pprof",
	"golang.org/x/sys", "golang.org/x/net", "golang.org/x/sync", "golang.org/x/term",
	"github.com/cockroachdb/pebble/v2", "github.com/hashicorp/memberlist", "github.com/prometheus/client_golang",
}

// worldly are functions of otherwise harmless packages that read the clock,
// wait, or draw from a source that no seed controls.
var worldly = map[string][]string{
	"time": {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"},
	"math/rand": {
		"Int", "Intn", "Int31", "Int31n", "Int63", "Int63n", "Uint32", "Uint64", "Float32", "Float64",
		"ExpFloat64", "NormFloat64", "Perm", "Shuffle", "Seed", "Read",
	},
	"math/rand/v2": {
		"Int", "IntN", "Int32", "Int32N", "Int64", "Int64N", "Uint", "UintN", "Uint32", "Uint32N", "Uint64", "Uint64N",
		"N", "Float32", "Float64", "ExpFloat64", "NormFloat64", "Perm", "Shuffle",
	},
	"hash/maphash":               {"MakeSeed", "String", "Bytes", "Comparable"},
	"context":                    {"WithTimeout", "WithDeadline", "WithTimeoutCause", "WithDeadlineCause", "AfterFunc"},
	"github.com/segmentio/ksuid": {"New", "NewRandom", "NewRandomWithTime"},
}

// Pure checks that the protocol packages of the import table take nothing from
// the world but what they are handed.
func Pure(t *Tree) []Problem {
	var out []Problem
	rows := Rows()
	for _, f := range t.Go(false) {
		if row, ok := rowOf(rows, f.Dir()); !ok || !row.Pure {
			continue
		}
		for _, p := range append(t.impureImports(f), t.impureSyntax(f)...) {
			p.Why, p.Do = whyPure, doPure
			out = append(out, p)
		}
	}
	return out
}

func (t *Tree) impureImports(f *File) []Problem {
	var out []Problem
	for _, s := range f.Syntax.Imports {
		ip, err := strconv.Unquote(s.Path.Value)
		if err != nil {
			continue
		}
		if slices.ContainsFunc(impure, func(i string) bool { return under(ip, i) && ip != "log/slog" }) {
			out = append(out, t.at(f, s.Pos(), "pure", "imports %s", ip))
		}
		if s.Name != nil && s.Name.Name == "." {
			out = append(out, t.at(f, s.Pos(), "pure", "imports %s with a dot, which hides what is called", ip))
		}
	}
	return out
}

func (t *Tree) impureSyntax(f *File) []Problem {
	names := map[string]string{} // the file's name of a package -> its path
	for ip := range worldly {    // Any order: a map is built.
		if n := f.importName(ip); n != "" {
			names[n] = ip
		}
	}
	var out []Problem
	add := func(n ast.Node, what string) { out = append(out, t.at(f, n.Pos(), "pure", "%s", what)) }
	ast.Inspect(f.Syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			add(n, "starts a goroutine")
		case *ast.SendStmt:
			add(n, "sends on a channel")
		case *ast.SelectStmt:
			add(n, "selects over channels")
		case *ast.ChanType:
			add(n, "has a channel")
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				add(n, "receives from a channel")
			}
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			if ok && slices.Contains(worldly[names[x.Name]], n.Sel.Name) {
				add(n, "uses "+strings.TrimPrefix(names[x.Name]+"."+n.Sel.Name, "github.com/"))
			}
		}
		return true
	})
	return out
}
