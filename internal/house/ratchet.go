package house

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/types"
	"maps"
	"math"
	"slices"
	"strings"
)

// Measure is a figure of the code that may only get better.
type Measure struct {
	Name string
	Is   float64
	// Limit is what it may be at most, or at least where More is better.
	Limit float64
	More  bool
	// Goal is what it is to become.
	Goal float64
	// Note says of what the figure is: the widest struct, the longest loop.
	Note string
}

// String gives the measure as a line for people.
func (m Measure) String() string {
	s := fmt.Sprintf("%-44s %9s  limit %s, goal %s", m.Name, number(m.Is), number(m.Limit), number(m.Goal))
	if m.Note != "" {
		s += "  (" + m.Note + ")"
	}
	return s
}

func number(x float64) string {
	if x == math.Trunc(x) {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.2f", x)
}

// broken tells whether the measure is on the wrong side of its limit.
func (m Measure) broken() bool { return m.More && m.Is < m.Limit || !m.More && m.Is > m.Limit }

// Limits of the ratchets. Whoever makes a figure better moves its limit along; nobody
// moves one back. The limits of lines leave others room for a day's work.
const (
	maxPackageLines = 6000
	coreLines       = 2500
	commandLines    = 5400
	nodeLines       = 5750
	coreFields      = 10
	coreBack        = 0
	coreFileLoop    = 5
	coreCallLoop    = 2
	sameMethods     = 2
	leastInvariants = 1.4
	leastComments   = 18
)

// heart is the package that is taken apart into small machines, and what is below it.
const heart = "node/core"

// machine is the type that everything there still leads back to.
const machine = "Core"

// Measures gives the ratchets of a tree: what CONTRIBUTING.md says of the shape of
// packages, in figures. Comments and invariants are counted below node/ alone.
func Measures(t *Tree) []Measure {
	d := newTypes(t)
	fields, widest := widestMachine(d, heart)
	back := backPointers(d, heart)
	files, loopFiles := fileLoop(t, d, heart)
	calls, loopCalls := callLoop(t, d, heart)
	same, name := sameMethod(t, heart)
	invariants, comments := shares(t, "node")
	out := packageLines(t)
	return append(out,
		Measure{Name: "fields of the widest machine in " + heart, Is: float64(fields), Limit: coreFields, Goal: 15, Note: widest},
		Measure{Name: "pointers back to an owner in " + heart, Is: float64(len(back)), Limit: coreBack, Goal: 0, Note: some(back)},
		Measure{Name: "files of " + heart + " that need each other", Is: float64(files), Limit: coreFileLoop, Goal: 5, Note: some(loopFiles)},
		Measure{Name: "functions of " + heart + " that call each other", Is: float64(calls), Limit: coreCallLoop, Goal: 5, Note: some(loopCalls)},
		Measure{Name: "methods of one name in a package of " + heart, Is: float64(same), Limit: sameMethods, Goal: 2, Note: name},
		Measure{Name: "Invariant: lines per 1,000 below node", Is: invariants, Limit: leastInvariants, More: true, Goal: 1.4},
		Measure{Name: "lines of comment below node, %", Is: comments, Limit: leastComments, More: true, Goal: 18},
	)
}

// Ratchets reports measures that have become worse than their limit.
func Ratchets(t *Tree) []Problem {
	var out []Problem
	for _, m := range Measures(t) {
		if m.broken() {
			out = append(out, Problem{
				Path: "internal/house/ratchet.go", Rule: "ratchet", What: m.String(),
				Why: "a house stays small only where no room grows: each of these was better before",
				Do:  "make the new code a package or a type of its own, with a doc.go; a limit never moves back",
			})
		}
	}
	return out
}

func some(all []string) string {
	if len(all) > 3 {
		return strings.Join(all[:3], " ") + " …"
	}
	return strings.Join(all, " ")
}

// packageLines are the lines of the packages that are over the limit or were, and of the
// largest one that is not.
func packageLines(t *Tree) []Measure {
	lines := map[string]int{}
	for _, f := range t.Go(false) {
		if !strings.HasPrefix(f.Dir(), "jepsen") && !strings.HasPrefix(f.Dir(), "internal/house") {
			lines[f.Dir()] += f.Lines()
		}
	}
	known := map[string]float64{heart: coreLines, "cmd/norn": commandLines, "node": nodeLines}
	var out []Measure
	rest := Measure{Name: "lines of the largest other package", Limit: maxPackageLines, Goal: maxPackageLines}
	for _, dir := range slices.Sorted(maps.Keys(lines)) {
		n := float64(lines[dir])
		if limit, ok := known[dir]; ok {
			out = append(out, Measure{Name: "lines of " + dir, Is: n, Limit: limit, Goal: maxPackageLines})
		} else if n > rest.Is {
			rest.Is, rest.Note = n, dir
		}
	}
	return append(out, rest)
}

// structs are the struct types that a directory declares, by name.
func structs(d *typed, dir string) map[string]*types.Struct {
	d.check(dir)
	out := map[string]*types.Struct{}
	p := d.pkgs[dir]
	if p == nil {
		return out
	}
	for _, n := range p.Scope().Names() {
		if tn, ok := p.Scope().Lookup(n).(*types.TypeName); ok {
			if st, ok := tn.Type().Underlying().(*types.Struct); ok {
				out[n] = st
			}
		}
	}
	return out
}

// widestMachine is the struct with methods that has the most fields.
func widestMachine(d *typed, dir string) (fields int, name string) {
	all := structs(d, dir)
	for _, n := range slices.Sorted(maps.Keys(all)) {
		tn := d.pkgs[dir].Scope().Lookup(n).(*types.TypeName)
		named, ok := tn.Type().(*types.Named)
		if ok && named.NumMethods() > 0 && all[n].NumFields() > fields && !isConfig(n) {
			fields, name = all[n].NumFields(), n
		}
	}
	return fields, name
}

// named is the name of the type of this package that a type is, or points to.
func named(t types.Type, dir string) string {
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	if n, ok := t.(*types.Named); ok && n.Obj().Pkg() != nil && n.Obj().Pkg().Path() == Module+"/"+dir {
		return n.Obj().Name()
	}
	return ""
}

// backPointers are fields by which a struct reaches the struct that owns it.
func backPointers(d *typed, dir string) (out []string) {
	all := structs(d, dir)
	owns := func(a, b string) bool {
		for i := range all[a].NumFields() {
			if named(all[a].Field(i).Type(), dir) == b {
				return true
			}
		}
		return false
	}
	back := func(n, owner string) bool {
		switch {
		case owner == "" || owner == n || n == machine || all[owner] == nil:
			return false
		case owner == machine:
			return true
		}
		// Of two that point to each other the larger one is the owner.
		return owns(owner, n) && (all[n].NumFields() < all[owner].NumFields() || all[n].NumFields() == all[owner].NumFields() && n > owner)
	}
	for _, n := range slices.Sorted(maps.Keys(all)) {
		for i := range all[n].NumFields() {
			f := all[n].Field(i)
			if _, pointer := f.Type().(*types.Pointer); pointer && back(n, named(f.Type(), dir)) {
				out = append(out, n+"."+f.Name())
			}
		}
	}
	return out
}

// edges is a graph by names.
type edges map[string]map[string]bool

func (e edges) add(from, to string) {
	if e[from] == nil {
		e[from] = map[string]bool{}
	}
	e[from][to] = true
}

// loop is the largest set of nodes of which each reaches each other one (Tarjan 1972).
func (e edges) loop() []string {
	var best []string
	index, low, on := map[string]int{}, map[string]int{}, map[string]bool{}
	var stack []string
	var visit func(v string)
	visit = func(v string) {
		index[v] = len(index) + 1
		low[v] = index[v]
		stack, on[v] = append(stack, v), true
		for _, w := range slices.Sorted(maps.Keys(e[v])) {
			if index[w] == 0 {
				visit(w)
				low[v] = min(low[v], low[w])
			} else if on[w] {
				low[v] = min(low[v], index[w])
			}
		}
		if low[v] != index[v] {
			return
		}
		i := slices.Index(stack, v)
		for _, w := range stack[i:] {
			on[w] = false
		}
		if part := slices.Sorted(slices.Values(stack[i:])); len(part) > len(best) {
			best = part
		}
		stack = stack[:i]
	}
	for _, v := range slices.Sorted(maps.Keys(e)) {
		if index[v] == 0 {
			visit(v)
		}
	}
	return best
}

// fileLoop are the files of a package of which each needs each other one.
func fileLoop(t *Tree, d *typed, dir string) (int, []string) {
	info, e := d.info(dir), edges{}
	for _, f := range t.Go(false) {
		if f.Dir() != dir {
			continue
		}
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				if o := info.Uses[id]; o != nil && o.Pkg() == d.pkgs[dir] && o.Pos().IsValid() && !local(o) {
					if to := t.Fset.Position(o.Pos()).Filename; to != f.Path {
						e.add(f.Path[len(dir)+1:], to[len(dir)+1:])
					}
				}
			}
			return true
		})
	}
	l := e.loop()
	return len(l), l
}

// local tells objects of a function from those of the package, its fields and methods.
func local(o types.Object) bool {
	v, ok := o.(*types.Var)
	return ok && !v.IsField() && o.Parent() != o.Pkg().Scope()
}

// callLoop are the functions of a package of which each calls each other one, directly or not.
func callLoop(t *Tree, d *typed, dir string) (int, []string) {
	info, e := d.info(dir), edges{}
	name := func(o types.Object) string {
		fn, ok := o.(*types.Func)
		if !ok || fn.Pkg() != d.pkgs[dir] {
			return ""
		}
		if r := fn.Signature().Recv(); r != nil {
			return named(r.Type(), dir) + "." + fn.Name()
		}
		return fn.Name()
	}
	for _, f := range t.Go(false) {
		if f.Dir() != dir {
			continue
		}
		for _, decl := range f.Syntax.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || info.Defs[fn.Name] == nil {
				continue
			}
			from := name(info.Defs[fn.Name])
			ast.Inspect(fn, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && info.Uses[id] != nil {
					if to := name(info.Uses[id]); to != "" {
						e.add(from, to)
					}
				}
				return true
			})
		}
	}
	l := e.loop()
	return len(l), l
}

// sameMethod is how many types of a package have a method of one name, at most, over a
// directory and what is below it. One without a statement marks a type, and does not count.
func sameMethod(t *Tree, dir string) (int, string) {
	count := map[string]int{}
	for _, f := range t.Go(false) {
		if !under(f.Dir(), dir) {
			continue
		}
		for _, d := range f.Syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil && !ast.IsExported(fn.Name.Name) && len(fn.Body.List) > 0 {
				count[f.Dir()+"."+fn.Name.Name]++
			}
		}
	}
	if len(count) == 0 {
		return 0, ""
	}
	most := slices.MaxFunc(slices.Sorted(maps.Keys(count)), func(a, b string) int { return cmp.Compare(count[a], count[b]) })
	return count[most], most
}

// shares are the invariants per 1,000 lines and the share of lines with a comment, in per
// cent, of what is below a directory.
func shares(t *Tree, dir string) (invariants, comments float64) {
	lines, inv, com := 0, 0, 0
	for _, f := range t.Go(false) {
		if !under(f.Dir(), dir) {
			continue
		}
		lines += f.Lines()
		seen := map[int]bool{}
		for _, g := range f.Syntax.Comments {
			for _, c := range g.List {
				inv += strings.Count(c.Text, "Invariant:")
				for l := t.Fset.Position(c.Pos()).Line; l <= t.Fset.Position(c.End()).Line; l++ {
					seen[l] = true
				}
			}
		}
		com += len(seen)
	}
	if lines == 0 {
		return leastInvariants, leastComments
	}
	return 1000 * float64(inv) / float64(lines), 100 * float64(com) / float64(lines)
}
