package session

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHandlersSayWhatHappens: the comment of each handler of a message says what
// becomes of failure, partial failure, delay, replay, and of the wrong sender.
func TestHandlersSayWhatHappens(t *testing.T) {
	want := map[string]bool{
		"heartbeat": true, "runningTasks": true, "runReply": true, "notifyReply": true, "updateStatus": true, "credit": true, "leave": true, "Name": true,
		"heartbeatReply": true, "renewed": true, "getRunningTasks": true, "runTask": true, "notify": true, "killTask": true, "statusAck": true, "die": true, "answer": true,
	}
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]bool)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil || !want[f.Name.Name] {
				continue
			}
			text := strings.ToLower(strings.Join(strings.Fields(f.Doc.Text()), " "))
			all := true
			for _, word := range []string{"failure", "partial failure", "delay", "replay", "identity"} {
				all = all && strings.Contains(text, word)
			}
			found[f.Name.Name] = found[f.Name.Name] || all
		}
	}
	for name := range want {
		if !found[name] {
			t.Errorf("the comment of %s does not answer all five questions", name)
		}
	}
}

// TestEveryPairHasAFile: each ordered pair of core calls has its file of interactions,
// with each fault.
func TestEveryPairHasAFile(t *testing.T) {
	for _, a := range calls {
		for _, b := range calls {
			if a == b {
				continue
			}
			text, err := os.ReadFile(fmt.Sprintf("testdata/%s_%s", a, b))
			if err != nil {
				t.Error(err)
			}
			for _, fault := range faults {
				if !strings.Contains("\n"+string(text), "\n# "+fault) {
					t.Errorf("%s, %s: nothing about %s", a, b, fault)
				}
			}
		}
	}
}
