package house

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// rulecase is a rule, a few sources, and the places where it must speak.
type rulecase struct {
	name    string
	check   func(*Tree) []Problem
	sources map[string]string
	want    []string // "path:line" and a part of What, with a space between
}

func parse(sources map[string]string) *Tree {
	b := map[string][]byte{}
	for p, s := range sources {
		b[p] = []byte(s)
	}
	return New(b)
}

func write(t *testing.T, root, name, content string) {
	t.Helper()
	p := filepath.Join(root, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func cases() []rulecase {
	return slices.Concat(layerCases(), pureCases(), mapCases(), sizeCases(), docCases(), testingCases(), textCases(), logCases(), ratchetCases(), quarryCases())
}

// TestRules shows that every rule fails on what it forbids and is silent on
// its nearest neighbour that is allowed.
func TestRules(t *testing.T) {
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			got := c.check(parse(c.sources))
			for _, w := range c.want {
				place, what, _ := strings.Cut(w, " ")
				i := slices.IndexFunc(got, func(p Problem) bool {
					return strings.HasPrefix(p.String(), place+":") && strings.Contains(p.What, what)
				})
				if i < 0 {
					t.Errorf("no problem at %s saying %q; got %v", place, what, got)
					continue
				}
				got = slices.Delete(got, i, i+1)
			}
			for _, p := range got {
				t.Errorf("unexpected: %s", p)
			}
		})
	}
}

// TestEveryRuleHasFailed keeps the list of rules and of their cases together.
func TestEveryRuleHasFailed(t *testing.T) {
	failed := map[string]bool{}
	for _, c := range cases() {
		for _, p := range c.check(parse(c.sources)) {
			failed[p.Rule] = true
		}
	}
	for _, r := range Rules() {
		if !failed[r.Name] {
			t.Errorf("no case makes the rule %s fail", r.Name)
		}
	}
}

const ours = `import _ "` + Module + "/"

func layerCases() []rulecase {
	one := func(dir, imported string) map[string]string {
		return map[string]string{dir + "/a.go": "package a\n" + ours + imported + "\"\n"}
	}
	return []rulecase{
		{"upward", Imports, one("clock", "id"), []string{"clock/a.go:2 imports id"}},
		{"upward from the machines", Imports, one("claim", "node/core"), []string{"claim/a.go:2 layer 3"}},
		{"downward", Imports, one("claim", "clock"), nil},
		{"never", Imports, one("election", "claim"), []string{"election/a.go:2 imports claim"}},
		{"never below a forbidden directory", Imports, one("store/pebble", "claim/order"), []string{"store/pebble/a.go:2 claim/order"}},
		{"within a row", Imports, one("store/pebble", "store"), nil},
		{"client of the server", Imports, one("client", "crdt"), []string{"client/a.go:2 imports crdt"}},
		{"worker of the client", Imports, one("client/worker", "client"), nil},
		{"client of the worker", Imports, one("client", "client/worker"), []string{"client/a.go:2 imports client/worker"}},
		{"generated words", Imports, one("claim", "proto/norn/v1"), nil},
		{"a switch in a node", Imports, one("node/core", "internal/mutant"), []string{"node/core/a.go:2 imports internal/mutant"}},
		{"core and transport", Imports, one("node/core", "transport"), []string{"node/core/a.go:2 imports transport"}},
		{"node and transport", Imports, one("node", "transport"), nil},
		{"no row", Imports, map[string]string{"stuff/a.go": "package stuff\n", "stuff/b.go": "package stuff\n"}, []string{"stuff/a.go:1 no row"}},
		{"tests may", Imports, map[string]string{"client/a_test.go": "package client\n" + ours + "node\"\n"}, nil},
		{"generated may", Imports, map[string]string{"quorum/a.pb.go": "package quorum\n" + ours + "node\"\n"}, nil},
		{"broken source", Parses, map[string]string{"ring/a.go": "package\n"}, []string{"ring/a.go:1 expected"}},
	}
}

func pureCases() []rulecase {
	in := func(dir, imports, body string) map[string]string {
		return map[string]string{dir + "/a.go": "package a\n" + imports + "\nfunc f() {\n" + body + "\n}\n"}
	}
	return []rulecase{
		{"clock read", Pure, in("ring", `import "time"`, "_ = time.Now()"), []string{"ring/a.go:4 time.Now"}},
		{"clock read under another name", Pure, in("ring", `import t "time"`, "_ = t.Since"), []string{"ring/a.go:4 time.Since"}},
		{"duration", Pure, in("ring", `import "time"`, "_ = time.Second"), nil},
		{"environment", Pure, in("crdt", `import "os"`, "_ = os.Args"), []string{"crdt/a.go:2 imports os"}},
		{"socket", Pure, in("crdt", `import "net/http"`, "_ = http.Get"), []string{"crdt/a.go:2 imports net/http"}},
		{"lock", Pure, in("claim", `import "sync/atomic"`, "_ = atomic.AddInt32"), []string{"claim/a.go:2 imports sync/atomic"}},
		{"logger", Pure, in("claim", `import "log/slog"`, "_ = slog.Info"), nil},
		{"crypto randomness", Pure, in("id", `import "crypto/rand"`, "_ = rand.Read"), []string{"id/a.go:2 crypto/rand"}},
		{"global randomness", Pure, in("id", `import "math/rand/v2"`, "_ = rand.IntN(3)"), []string{"id/a.go:4 math/rand/v2.IntN"}},
		{"seeded randomness", Pure, in("id", `import "math/rand/v2"`, "_ = rand.New(rand.NewPCG(1, 2)).IntN(3)"), nil},
		{"goroutine", Pure, in("vnode", "", "go f()"), []string{"vnode/a.go:4 goroutine"}},
		{"channel", Pure, in("vnode", "", "c := make(chan int)\nc <- 1\n<-c"), []string{"vnode/a.go:4 channel", "vnode/a.go:5 sends", "vnode/a.go:6 receives"}},
		{"select", Pure, in("vnode", "", "select {}"), []string{"vnode/a.go:4 selects"}},
		{"dot import", Pure, in("vnode", `import . "time"`, "_ = Now()"), []string{"vnode/a.go:2 with a dot"}},
		{"impure package", Pure, in("transport", `import "net"`, "go f(); _ = net.Dial"), nil},
		{"the runner of a core", Pure, in("node", `import "os"`, "go f()"), nil},
		{"the core", Pure, in("node/core", `import "os"`, "go f()"), []string{"node/core/a.go:2 os", "node/core/a.go:4 goroutine"}},
	}
}

func mapCases() []rulecase {
	body := func(s string) map[string]string {
		return map[string]string{"ring/a.go": "package ring\nfunc use(int) {}\nfunc f(m map[int]int) (out []int) {\n" + s + "\nreturn out\n}\n"}
	}
	seen := []string{"ring/a.go:4 ranges over a map"}
	return []rulecase{
		{"order that is seen", MapOrder, body("for k := range m {\nuse(k)\n}"), seen},
		{"collected", MapOrder, body("for k := range m {\nout = append(out, k)\n}"), seen},
		{"collected, other slice sorted", MapOrder, body("for k := range m {\nout = append(out, k)\n}\nslices.Sort(other)"), seen},
		{"collected and sorted", MapOrder, body("for k := range m {\nout = append(out, k)\n}\nslices.Sort(out)"), nil},
		{"counted", MapOrder, body("n := 0\nfor _, v := range m {\nif v == 0 {\ncontinue\n}\nn += v\n}"), nil},
		{"joined text", MapOrder, body("s := \"\"\nfor k := range m {\ns += string(rune(k))\n}\n_ = s"), []string{"ring/a.go:5 ranges"}},
		{"copied by key", MapOrder, body("c := map[int]int{}\nfor k, v := range m {\nc[k] = v\n}"), nil},
		{"copied by value", MapOrder, body("c := map[int]int{}\nfor k, v := range m {\nc[v] = k\n}"), []string{"ring/a.go:5 ranges"}},
		{"deleted", MapOrder, body("for k := range m {\ndelete(m, k)\n}"), nil},
		{"maximum", MapOrder, body("n := 0\nfor k := range m {\nn = max(n, k)\n}"), nil},
		{"first", MapOrder, body("for k := range m {\nreturn []int{k}\n}"), seen},
		{"length only", MapOrder, body("for range m {\nuse(1)\n}"), nil},
		{"said why", MapOrder, body("// Any order: use adds.\nfor k := range m {\nuse(k)\n}"), nil},
		{"slice", MapOrder, body("for _, k := range out {\nuse(k)\n}"), nil},
		{"map of another package of ours", MapOrder, map[string]string{
			"id/a.go":   "package id\ntype Set map[int]bool\n",
			"ring/a.go": "package ring\nimport \"" + Module + "/id\"\nfunc use(int) {}\nfunc f(s id.Set) {\nfor k := range s {\nuse(k)\n}\n}\n",
		}, []string{"ring/a.go:5 ranges"}},
		{"impure package", MapOrder, map[string]string{"node/a.go": "package node\nfunc f(m map[int]int) {\nfor k := range m {\nprint(k)\n}\n}\n"}, nil},
	}
}
