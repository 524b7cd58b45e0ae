package house

import (
	"fmt"
	"go/token"
	"slices"
	"strings"
)

// Problem is one broken rule at one place.
type Problem struct {
	Path string // relative to the root of the repository, with slashes
	Line int    // 1-based; 0: the file or directory as a whole
	Rule string // name of the rule, as in [Rules]
	What string // what is there
	Why  string // why that is not wanted
	Do   string // what to do about it
}

// String gives the problem as `file:line: rule: what`, then why and what to
// do, in a form that editors can jump from.
func (p Problem) String() string {
	return fmt.Sprintf("%s:%d: %s: %s\n\twhy: %s\n\tdo:  %s", p.Path, max(p.Line, 1), p.Rule, p.What, p.Why, p.Do)
}

// Rule is a named check of the tree.
type Rule struct {
	Name  string
	Check func(*Tree) []Problem
}

// Rules are all rules over Go source and text, in the order in which they are
// reported.
func Rules() []Rule {
	return []Rule{
		{"parse", Parses},
		{"imports", Imports},
		{"pure", Pure},
		{"map-order", MapOrder},
		{"package-name", PackageNames},
		{"doc.go", PackageDocs},
		{"docstring", ExportedDocs},
		{"file-length", FileLengths},
		{"function-length", FunctionLengths},
		{"interface-size", InterfaceSizes},
		{"type-size", TypeSizes},
		{"mutex", Mutexes},
		{"no-init", NoInit},
		{"no-sleep", NoSleep},
		{"assertion", Assertions},
		{"machine-path", MachinePaths},
		{"coverage", Coverage},
		{"logs", Logs},
		{"dependencies", Dependencies},
		{"pages", Pages},
		{"page-code", PageCode},
		{"page-tests", PageTests},
		{"page-style", PageStyle},
		{"prose-lines", ProseLines},
		{"user-words", UserWords},
		{"ratchet", Ratchets},
		{"quarries", Quarries},
	}
}

// Exception excuses one rule in one place.
type Exception struct {
	Rule string // name of the rule
	Path string // a file, or a directory with all below it
	What string // must occur in the problem's What
	Why  string // the reason, for the reader
}

// Exceptions are the deliberate departures from the rules.
func Exceptions() []Exception {
	return []Exception{
		{
			Rule: "pure", Path: "register/local.go", What: "imports sync",
			Why: "the register's disk is outside the pure part: cells are read and swapped from the core loop, the HTTP handlers and the log, and each swap waits for an fsync",
		},
		{
			Rule: "interface-size", Path: "store/store.go", What: "interface Store has 7 methods",
			Why: "it is a View of three reads with four more, and whoever only reads declares the View; a second kind of view, without reads from the end, would be one that half of the readers cannot use",
		},
	}
}

// Excuse takes the excused problems out of ps. It adds one problem for every
// exception that has excused nothing although its path is in the tree.
func Excuse(t *Tree, rule string, ps []Problem, all []Exception) []Problem {
	used := make([]bool, len(all))
	left := slices.DeleteFunc(slices.Clone(ps), func(p Problem) bool {
		i := slices.IndexFunc(all, func(e Exception) bool {
			return e.Rule == p.Rule && under(p.Path, e.Path) && strings.Contains(p.What, e.What)
		})
		if i >= 0 {
			used[i] = true
		}
		return i >= 0
	})
	for i, e := range all {
		if used[i] || e.Rule != rule || !slices.ContainsFunc(t.Files, func(f *File) bool { return under(f.Path, e.Path) }) {
			continue
		}
		left = append(left, Problem{
			Path: "internal/house/problem.go", Rule: rule, What: fmt.Sprintf("the exception for %s (%s) excuses nothing", e.Path, e.What),
			Why: "an exception nobody needs hides the next problem at that place",
			Do:  "delete it from Exceptions",
		})
	}
	return left
}

// under reports whether path is dir or lies below it.
func under(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, dir+"/")
}

// at starts a problem at a position of a file.
func (t *Tree) at(f *File, pos token.Pos, rule, format string, args ...any) Problem {
	return Problem{Path: f.Path, Line: t.Fset.Position(pos).Line, Rule: rule, What: fmt.Sprintf(format, args...)}
}
