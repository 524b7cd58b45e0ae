package house

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// logsFile lists the events that a server writes, and their keys.
const logsFile = "docs/reference/logs.md"

// serverParts are the directories and files whose log lines a server writes.
var serverParts = []string{"internal/logins", "internal/viaproxy", "node", "register", "store", "transport", "web", "cmd/norn/serve", "cmd/norn/server.go"}

var eventName = regexp.MustCompile(`^[a-z]+\.[a-z_]+$`)

// Logs checks the log lines of a server: each names an event (`area.what`) as a
// literal, with literal keys, each once; and docs/reference/logs.md lists exactly these
// events, each with exactly its keys, and each key.
func Logs(t *Tree) []Problem {
	f := t.File(logsFile)
	if f == nil {
		return nil // TestHouse looks at the whole repository, and this file is in its tables
	}
	l := &logLines{t: t, file: f, events: map[string][]string{}}
	for _, f := range t.Go(false) {
		if slices.ContainsFunc(serverParts, func(part string) bool { return under(f.Path, part) }) {
			ast.Inspect(f.Syntax, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					if args := logCall(call); args != nil {
						l.look(f, args)
					}
				}
				return true
			})
		}
	}
	l.compare()
	return l.out
}

// logLines collects what is logged.
type logLines struct {
	t      *Tree
	file   *File
	events map[string][]string // to their keys
	out    []Problem
}

func (l *logLines) add(p Problem) {
	p.Why, p.Do = "operators grep for events and keys, and programs read them: one name, one meaning, and all of them written down", "write it as the others are, and keep the tables of "+logsFile
	l.out = append(l.out, p)
}

// logMethods are the methods of a logger that write a line, with the place of the
// event among their arguments.
var logMethods = map[string]int{
	"Debug": 0, "Info": 0, "Warn": 0, "Error": 0,
	"DebugContext": 1, "InfoContext": 1, "WarnContext": 1, "ErrorContext": 1, "Log": 2,
}

// logCall gives the arguments of a call of a logger from the event on; nil for
// any other call.
func logCall(call *ast.CallExpr) []ast.Expr {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	first, ok := logMethods[sel.Sel.Name]
	if !ok || first >= len(call.Args) || !isLogger(sel.X) {
		return nil
	}
	return call.Args[first:]
}

// isLogger tells a logger by what it is called.
func isLogger(e ast.Expr) bool {
	name := ""
	switch x := e.(type) {
	case *ast.Ident:
		name = x.Name
	case *ast.SelectorExpr:
		name = x.Sel.Name
	}
	name = strings.ToLower(name)
	return name == "log" || name == "logger"
}

// look takes down one call.
func (l *logLines) look(f *File, args []ast.Expr) {
	event, ok := literal(args[0])
	if !ok || !eventName.MatchString(event) {
		l.add(l.t.at(f, args[0].Pos(), "logs", "the event %q is not a literal like area.what", event))
		return
	}
	known := l.events[event]
	var here []string
	for i := 1; i < len(args); i += 2 {
		key, ok := literal(args[i])
		switch {
		case !ok || strings.ToLower(key) != key || strings.ContainsAny(key, " -."):
			l.add(l.t.at(f, args[i].Pos(), "logs", "a key of %s is not a literal in snake_case", event))
		case slices.Contains(here, key) || slices.Contains([]string{"node", "time", "level", "msg"}, key):
			l.add(l.t.at(f, args[i].Pos(), "logs", "%s has the key %s twice", event, key))
		case !slices.Contains(known, key):
			known = append(known, key)
		}
		here = append(here, key)
	}
	l.events[event] = known
}

func literal(e ast.Expr) (string, bool) {
	b, ok := e.(*ast.BasicLit)
	if !ok || b.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(b.Value)
	return s, err == nil
}

// compare holds the source against the tables.
func (l *logLines) compare() {
	documented, keys, used := map[string]bool{}, map[string]bool{}, map[string]bool{}
	at := func(line int, what string) {
		l.add(Problem{Path: logsFile, Line: line, Rule: "logs", What: what})
	}
	for i, row := range strings.Split(string(l.file.Source), "\n") {
		cells := strings.Split(row, "|")
		name := quoted.FindStringSubmatch(row)
		switch {
		case !strings.HasPrefix(row, "| `") || len(cells) < 4:
		case len(cells) == 4:
			keys[name[1]] = true
		default:
			documented[name[1]] = true
			var listed []string
			for _, key := range quoted.FindAllStringSubmatch(cells[3], -1) {
				listed = append(listed, key[1])
				used[key[1]] = true
			}
			have, is := l.events[name[1]]
			if slices.Sort(listed); !is || !slices.Equal(listed, slices.Sorted(slices.Values(have))) {
				at(i+1, "the source has "+name[1]+" with the keys "+strings.Join(have, ", ")+"; the table has "+strings.Join(listed, ", "))
			}
		}
	}
	for event := range l.events {
		if !documented[event] {
			at(0, event+" is not in the table of events, with the keys "+strings.Join(l.events[event], ", "))
		}
	}
	for key := range used {
		if !keys[key] {
			at(0, key+" is not in the table of keys")
		}
	}
	for key := range keys {
		if !used[key] {
			at(0, key+" is in the table of keys, and no event has it")
		}
	}
}
