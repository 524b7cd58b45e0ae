package reference

import (
	"fmt"
	"go/ast"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Limits is the page of limits that are in the source; those that are settings are on the
// page of settings.
func Limits(root string) (string, error) {
	f, err := source(filepath.Join(root, "proto/limits.go"))
	if err != nil {
		return "", err
	}
	b := head("Limits", prose("For whoever sends requests. A request past a limit is refused before anything is done, and the error names the limit. "+
		"[The protocol](protocol.md#limits) says what each refusal is, and which limits a node shares out among connections; "+
		"those that can be set are in [settings](settings.md). Several limits with one text are bounds of one thing."))
	b.WriteString("| limit | value | what for |\n|---|---|---|\n")
	values(f, func(name, doc string, value ast.Expr) {
		if strings.HasSuffix(name, "Version") {
			return // not a limit of requests
		}
		doc = strings.TrimPrefix(strings.TrimPrefix(doc, name+" "), "is ")
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", name, amount(name, value), cell(doc))
	})
	return b.String(), nil
}

// amount is a constant for people.
func amount(name string, e ast.Expr) string {
	n, isTime := number(e)
	switch {
	case isTime:
		d := time.Duration(n)
		if d >= 24*time.Hour && d%(24*time.Hour) == 0 {
			return fmt.Sprintf("%d d", d/(24*time.Hour))
		}
		s := d.String()
		if s = strings.TrimSuffix(s, "0s"); strings.HasSuffix(s, "m") {
			return s
		}
		return d.String()
	case strings.Contains(name, "Bytes") || strings.Contains(name, "Payload") || name == "MaxFrame" || strings.HasPrefix(name, "MaxUpdatesIn"):
		switch {
		case n >= 1<<20 && n%(1<<20) == 0:
			return fmt.Sprintf("%d MiB", n>>20)
		case n >= 1<<10 && n%(1<<10) == 0:
			return fmt.Sprintf("%d KiB", n>>10)
		}
	}
	return grouped(n)
}

// number is the value of a constant expression, and whether it is a time.
func number(e ast.Expr) (n int64, isTime bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		n, _ = strconv.ParseInt(strings.ReplaceAll(e.Value, "_", ""), 0, 64) // the compiler has read it
	case *ast.ParenExpr:
		return number(e.X)
	case *ast.SelectorExpr:
		return int64(map[string]time.Duration{"Second": time.Second, "Minute": time.Minute, "Hour": time.Hour, "Millisecond": time.Millisecond}[e.Sel.Name]), true
	case *ast.BinaryExpr:
		x, xTime := number(e.X)
		y, yTime := number(e.Y)
		isTime = xTime || yTime
		switch e.Op {
		case token.SHL:
			n = x << y
		case token.MUL:
			n = x * y
		case token.ADD:
			n = x + y
		case token.SUB:
			n = x - y
		}
	}
	return n, isTime
}

// grouped is a number with commas.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
