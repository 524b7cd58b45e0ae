package house

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// anyOrder is the mark of a loop over a map whose order does not matter for a
// reason that [MapOrder] cannot see.
const anyOrder = "Any order:"

// MapOrder reports loops over maps in pure packages, unless the order is
// plainly without effect: the body only counts, fills another map by the same
// key, deletes, or collects into a slice that is sorted afterwards.
func MapOrder(t *Tree) []Problem {
	var out []Problem
	rows, typed := Rows(), newTypes(t)
	for _, f := range t.Go(false) {
		if row, ok := rowOf(rows, f.Dir()); !ok || !row.Pure {
			continue
		}
		info := typed.info(f.Dir())
		eachBlock(f.Syntax, func(block []ast.Stmt) {
			for i, s := range block {
				if l, ok := s.(*ast.LabeledStmt); ok {
					s = l.Stmt
				}
				r, ok := s.(*ast.RangeStmt)
				if !ok || r.Key == nil || !isMap(info.TypeOf(r.X)) || t.marked(f, r.Pos(), anyOrder) {
					continue
				}
				if w := (orderCheck{info, r, block[i+1:]}); w.free(r.Body.List) {
					continue
				}
				p := t.at(f, r.Pos(), "map-order", "ranges over a map")
				p.Why = "Go walks maps in another order each time; in a pure package that makes two runs of one seed differ"
				p.Do = "range over slices.Sorted(maps.Keys(m)), or say in a comment `// " + anyOrder + " why` on the line above why it cannot be seen"
				out = append(out, p)
			}
		})
	}
	return out
}

func isMap(typ types.Type) bool {
	if typ == nil {
		return false
	}
	_, ok := typ.Underlying().(*types.Map)
	return ok
}

// eachBlock calls fn with every list of statements below n.
func eachBlock(n ast.Node, fn func([]ast.Stmt)) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BlockStmt:
			fn(n.List)
		case *ast.CaseClause:
			fn(n.Body)
		case *ast.CommClause:
			fn(n.Body)
		}
		return true
	})
}

// marked reports whether a comment with the mark stands on the line of pos or
// ends on the line above it.
func (t *Tree) marked(f *File, pos token.Pos, mark string) bool {
	line := t.Fset.Position(pos).Line
	return slices.ContainsFunc(f.Syntax.Comments, func(g *ast.CommentGroup) bool {
		from, to := t.Fset.Position(g.Pos()).Line, t.Fset.Position(g.End()).Line
		return (to == line-1 || from <= line && line <= to) && strings.Contains(g.Text(), mark)
	})
}

// orderCheck judges the body of one loop over a map.
type orderCheck struct {
	info  *types.Info
	loop  *ast.RangeStmt
	after []ast.Stmt // what follows the loop in its block
}

// free reports whether the statements have the same effect in any order of the
// keys. In doubt it says no.
func (w orderCheck) free(list []ast.Stmt) bool {
	return !slices.ContainsFunc(list, func(s ast.Stmt) bool { return !w.freeStmt(s) })
}

func (w orderCheck) freeStmt(s ast.Stmt) bool {
	switch s := s.(type) {
	case nil, *ast.EmptyStmt, *ast.IncDecStmt:
		return true
	case *ast.BlockStmt:
		return w.free(s.List)
	case *ast.IfStmt:
		return w.freeStmt(s.Init) && w.free(s.Body.List) && w.freeStmt(s.Else)
	case *ast.ForStmt:
		return w.free(s.Body.List)
	case *ast.RangeStmt:
		return w.free(s.Body.List)
	case *ast.BranchStmt:
		return s.Tok == token.CONTINUE
	case *ast.ReturnStmt:
		return !slices.ContainsFunc(s.Results, func(e ast.Expr) bool { return !constant(e) })
	case *ast.ExprStmt:
		call, ok := s.X.(*ast.CallExpr)
		return ok && isIdent(call.Fun, "delete", "clear")
	case *ast.AssignStmt:
		return w.freeAssign(s)
	}
	return false
}

func (w orderCheck) freeAssign(s *ast.AssignStmt) bool {
	switch s.Tok {
	case token.DEFINE:
		return true
	case token.ADD_ASSIGN, token.SUB_ASSIGN, token.OR_ASSIGN, token.AND_ASSIGN, token.XOR_ASSIGN:
		basic, ok := w.info.TypeOf(s.Lhs[0]).(*types.Basic)
		return !ok || basic.Info()&types.IsString == 0
	case token.ASSIGN:
	default:
		return false
	}
	for i, l := range s.Lhs {
		if isIdent(l, "_") || w.byKey(l) {
			continue
		}
		if len(s.Rhs) != len(s.Lhs) {
			return false
		}
		call, ok := s.Rhs[i].(*ast.CallExpr)
		if !ok || len(call.Args) == 0 || types.ExprString(call.Args[0]) != types.ExprString(l) {
			return false
		}
		if !isIdent(call.Fun, "max", "min") && (!isIdent(call.Fun, "append") || !w.sortedLater(l)) {
			return false
		}
	}
	return true
}

// byKey reports whether e is an element of a map that is chosen by the loop's
// key.
func (w orderCheck) byKey(e ast.Expr) bool {
	ix, ok := e.(*ast.IndexExpr)
	key, named := w.loop.Key.(*ast.Ident)
	return ok && named && isMap(w.info.TypeOf(ix.X)) && isIdent(ix.Index, key.Name)
}

// sortedLater reports whether a later statement of the block sorts e.
func (w orderCheck) sortedLater(e ast.Expr) bool {
	found := false
	for _, s := range w.after {
		ast.Inspect(s, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if ok && strings.Contains(strings.ToLower(types.ExprString(call.Fun)), "sort") {
				found = found || slices.ContainsFunc(call.Args, func(a ast.Expr) bool { return types.ExprString(a) == types.ExprString(e) })
			}
			return !found
		})
	}
	return found
}

func isIdent(e ast.Expr, names ...string) bool {
	id, ok := e.(*ast.Ident)
	return ok && slices.Contains(names, id.Name)
}

func constant(e ast.Expr) bool {
	_, lit := e.(*ast.BasicLit)
	return lit || isIdent(e, "true", "false", "nil")
}
