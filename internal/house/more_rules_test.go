package house

import (
	"fmt"
	"strings"
	"testing"
)

func sizeCases() []rulecase {
	src := func(s string) map[string]string { return map[string]string{"ring/a.go": "package ring\n" + s + "\n"} }
	lines := func(n int) string { return strings.Repeat("\n", n) }
	methods := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "func (x *T[A]) m%d() {}\n", i)
		}
		return b.String()
	}
	return []rulecase{
		{"file of 600", FileLengths, src(lines(598)), nil},
		{"file of 601", FileLengths, src(lines(599)), []string{"ring/a.go:1 601 lines"}},
		{"generated file", FileLengths, map[string]string{"proto/a.pb.go": "package proto\n" + lines(900)}, nil},
		{"function of 70", FunctionLengths, src("func f() {\n" + lines(68) + "}"), nil},
		{"function of 71", FunctionLengths, src("func f() {\n" + lines(69) + "}"), []string{"ring/a.go:2 71 lines"}},
		{"function with a reason", FunctionLengths, src("// f does it.\n//\n// Long because: one table.\nfunc f() {\n" + lines(80) + "}"), nil},
		{"reason elsewhere", FunctionLengths, src("// Long because: one table.\n\nvar x int\n\nfunc f() {\n" + lines(80) + "}"), []string{"ring/a.go:6 f has"}},
		{"interface of 6", InterfaceSizes, src("type I interface { a(); b(); c(); d(); e(); f() }"), nil},
		{"interface of 7", InterfaceSizes, src("type I interface { a(); b(); c(); d(); e(); f(); g() }"), []string{"ring/a.go:2 7 methods"}},
		{"interface by embedding", InterfaceSizes, src("type I interface { J; c(); d(); e(); f() }\ntype J interface { a(); b(); fmt.Stringer }"), []string{"ring/a.go:2 7 methods"}},
		{"type of 40", TypeSizes, src("type T[A any] struct{}\n" + methods(40)), nil},
		{"type of 41", TypeSizes, src("type T[A any] struct{}\n" + methods(41)), []string{"ring/a.go:2 41 methods"}},
		{"two mutexes", Mutexes, src("import \"sync\"\ntype T struct {\na sync.Mutex // guards x\n// b guards y\nb *sync.RWMutex\n}"), nil},
		{"three mutexes", Mutexes, src("import \"sync\"\ntype T struct {\na, b sync.Mutex // guard x\nc sync.RWMutex // guards y\n}"), []string{"ring/a.go:3 3 mutexes"}},
		{"three mutexes, nested", Mutexes, src("import \"sync\"\ntype T struct {\na, b sync.Mutex // guard x\nin struct {\nc sync.Mutex // guards y\n}\n}"), []string{"ring/a.go:3 3 mutexes"}},
		{"silent mutex", Mutexes, src("import \"sync\"\ntype T struct {\nsync.Mutex\n}"), []string{"ring/a.go:4 does not say"}},
	}
}

func docCases() []rulecase {
	src := func(s string) map[string]string { return map[string]string{"ring/a.go": "package ring\n" + s + "\n"} }
	return []rulecase{
		{"vague package", PackageNames, map[string]string{"ring/util/a.go": "package util\n"}, []string{"ring/util/a.go:1 util"}},
		{"vague directory", PackageNames, map[string]string{"helpers/a.go": "package x\n"}, []string{"helpers/a.go:1 helpers"}},
		{"telling package", PackageNames, src(""), nil},
		{"no doc.go", PackageDocs, map[string]string{"ring/a.go": "// Package ring is here.\npackage ring\n"}, []string{"ring/a.go:2 no doc.go"}},
		{"empty doc.go", PackageDocs, map[string]string{"ring/doc.go": "package ring\n"}, []string{"ring/doc.go:1 no doc.go"}},
		{"wrong start", PackageDocs, map[string]string{"ring/doc.go": "// The ring.\npackage ring\n"}, []string{"ring/doc.go:2 no doc.go"}},
		{"doc.go", PackageDocs, map[string]string{"ring/doc.go": "// Package ring places.\npackage ring\n", "cmd/norn/doc.go": "// Norn is a queue.\npackage main\n"}, nil},
		{"silent function", ExportedDocs, src("func F() {}"), []string{"ring/a.go:2 function F"}},
		{"silent method", ExportedDocs, src("// T is.\ntype T struct{}\nfunc (t T) M() {}"), []string{"ring/a.go:4 function M"}},
		{"method of an unexported type", ExportedDocs, src("type t struct{}\nfunc (x t) M() {}"), nil},
		{"silent type", ExportedDocs, src("type T struct{}"), []string{"ring/a.go:2 type T"}},
		{"silent type in a group", ExportedDocs, src("// Both.\ntype (\n// T is.\nT int\nU int\n)"), []string{"ring/a.go:6 type U"}},
		{"silent values", ExportedDocs, src("const A = 1\nvar B, c = 1, 2"), []string{"ring/a.go:2 constant A", "ring/a.go:3 variable B"}},
		{"values with comments", ExportedDocs, src("// Group.\nconst (\nA = 1\n)\nvar (\nB = 1 // unit\n)"), nil},
		{"silent setting", ExportedDocs, src("// Config is.\ntype Config struct {\nA int\nB int // seconds\nc int\n}"), []string{"ring/a.go:4 Config.A"}},
		{"tests need none", ExportedDocs, map[string]string{"ring/a_test.go": "package ring\nfunc TestX(t *testing.T) {}\n"}, nil},
		{"init", NoInit, src("func init() {}"), []string{"ring/a.go:2 func init"}},
		{"method init", NoInit, src("type t int\nfunc (t) init() {}"), nil},
		{"generated init", NoInit, map[string]string{"proto/a.pb.go": "package proto\nfunc init() {}\n"}, nil},
	}
}

func testingCases() []rulecase {
	src := func(s string) map[string]string {
		return map[string]string{"ring/a_test.go": "package ring\nimport \"time\"\n" + s + "\n"}
	}
	silent := []string{"ring/a_test.go:3 asserts nothing"}
	return []rulecase{
		{"sleep", NoSleep, src("func f() { time.Sleep(1) }"), []string{"ring/a_test.go:3 Sleep"}},
		{"sleep in a bubble", NoSleep, src("import \"testing/synctest\"\nfunc f() { time.Sleep(1) }"), nil},
		{"sleep outside tests", NoSleep, map[string]string{"node/a.go": "package node\nimport \"time\"\nfunc f() { time.Sleep(1) }\n"}, nil},
		{"no assertion", Assertions, src("func TestA(t *testing.T) { t.Log(1); f() }"), silent},
		{"assertion", Assertions, src("func TestA(t *testing.T) { if x { t.Errorf(\"x\") } }"), nil},
		{"assertion elsewhere", Assertions, src("func TestA(t *testing.T) { check(t, 1) }"), nil},
		{"empty subtest", Assertions, src("func TestA(t *testing.T) { t.Run(\"x\", func(t *testing.T) { f() }) }"), silent},
		{"subtest", Assertions, src("func TestA(t *testing.T) { t.Run(\"x\", func(u *testing.T) { u.Fatal() }) }"), nil},
		{"named subtest", Assertions, src("func TestA(t *testing.T) { t.Run(\"x\", g) }"), nil},
		{"empty property", Assertions, src("func TestA(t *testing.T) { rapid.Check(t, func(rt *rapid.T) { rapid.Int() }) }"), silent},
		{"property", Assertions, src("func TestA(t *testing.T) { rapid.Check(t, func(rt *rapid.T) { rt.Fatalf(\"x\") }) }"), nil},
		{"condition", Assertions, src("func TestA(t *testing.T) { eventually(t, func() bool { return true }) }"), nil},
		{"error text is no assertion", Assertions, src("func TestA(t *testing.T) { _ = err.Error() }"), silent},
		{"fuzz target", Assertions, src("func FuzzA(f *testing.F) { f.Fuzz(func(t *testing.T, b []byte) { decode(b) }) }"), nil},
		{"main of tests", Assertions, src("func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }"), nil},
	}
}

func textCases() []rulecase {
	text := func(name, s string) map[string]string { return map[string]string{name: s} }
	mod := "module x\n\nrequire (\n\tgithub.com/a/b v1.0.0\n\tgithub.com/c/d v1.0.0 // indirect\n)\n"
	uses := "package ring\nimport _ \"github.com/c/d/sub\"\n"
	return []rulecase{
		{"path of root", MachinePaths, text("README.md", "see\n`/ro"+"ot/go/bin`\n"), []string{"README.md:2 one machine"}},
		{"path of a user", MachinePaths, text("a.sh", "cd /ho"+"me/jo/x\n"), []string{"a.sh:1 me/jo"}},
		{"path in a URL", MachinePaths, text("README.md", "https://example.org/ho"+"me/jo and /etc/norn and /homes\n"), nil},
		{"dependency without a line", Dependencies, map[string]string{"go.mod": mod}, []string{"go.mod:4 github.com/a/b"}},
		{"dependency that is used", Dependencies, map[string]string{"go.mod": mod, "ring/a.go": uses, "docs/contributors/dependencies.md": "| `github.com/a/b` | why |\n"}, []string{"go.mod:5 github.com/c/d"}},
		{"dependencies with lines", Dependencies, map[string]string{"go.mod": mod, "ring/a.go": uses, "docs/contributors/dependencies.md": "`github.com/a/b`, `github.com/c/d`\n"}, nil},
		{"links that lead somewhere", Pages, map[string]string{"docs/a.md": "# A\n[b](b.md#two-words) [here](#a) [x](https://x.y/z.md) [all](../docs/)\n`[c](gone.md)`\n", "docs/b.md": "## Two words\n"}, nil},
		{"link to no page", Pages, text("docs/a.md", "[b](b.md)\n"), []string{"docs/a.md:1 leads nowhere"}},
		{"link to no heading", Pages, map[string]string{"docs/a.md": "\n[b](b.md#three)\n", "docs/b.md": "# One\n```\n# three\n```\n"}, []string{"docs/a.md:2 no heading #three"}},
		{"page that a comment names", Pages, text("ring/a.go", "package ring\n// see do"+"cs/gone.md\n"), []string{"ring/a.go:2 no page"}},
		{"code of a page that is compiled", PageCode, map[string]string{"docs/how-to/a.md": "```go\nx := f(1) // one\ny()\n```\n", "examples/a/a.go": "package a\nfunc g() {\n\tx := f(1)   // one\n\n\ty()\n}\n"}, nil},
		{"code of a page that is not", PageCode, map[string]string{"docs/how-to/a.md": "\n```go\nx := f(2)\n```\n", "examples/a/a.go": "package a\nfunc g() {\n\tx := f(1)\n}\n"}, []string{"docs/how-to/a.md:2 no file"}},
		{"tests that a page names", PageTests, map[string]string{"docs/how-to/a.md": "`TestA`\n`TestB`\n", "ring/a_test.go": "package ring\nfunc TestA() {}\n"}, []string{"docs/how-to/a.md:2 no test TestB"}},
		{"style of a page", PageStyle, text("docs/how-to/a.md", "# A\n\nshort\n\n"+strings.Repeat("l", 121)+"\n\n- a\n- b\n- c\n- d\n- e\n- f\n- g\n\n1\n2\n3\n4\n5\n6\n7\n\n|"+strings.Repeat("l", 200)+"\n"), []string{"docs/how-to/a.md:5 121 characters", "docs/how-to/a.md:21 more than 6", "docs/how-to/a.md:23 row of 201"}},
		{"prose of another page", ProseLines, text("docs/contributors/a.md", "# A\n\n"+strings.Repeat("l", 120)+"\n\n"+strings.Repeat("l", 121)+"\n\n|"+strings.Repeat("l", 200)+"\n\n    "+strings.Repeat("l", 200)+"\n"), []string{"docs/contributors/a.md:5 1 lines of prose"}},
		{"words of users", UserWords, text("docs/how-to/a.md", strings.Repeat("w ", maxUserWords+1)+"\n```\n"+strings.Repeat("w ", maxUserWords+2)+"\n```\n"), []string{"docs/README.md:1 user pages have"}},
		{"words made from the source", UserWords, text("docs/reference/a.md", "<!-- Made from the source -->\n"+strings.Repeat("w ", maxUserWords+2)), nil},
		{"length of a page", PageStyle, text("docs/how-to/a.md", strings.Repeat("\n", 251)), []string{"docs/how-to/a.md:1 251 lines"}},
		{"no coverage", Coverage, map[string]string{}, []string{coverageFile + ":1 missing"}},
	}
}

// table gives a complete coverage table, rows replaced.
func table(rows map[int]string) map[string]string {
	var b strings.Builder
	b.WriteString("| N | promise | shown or open | evidence |\n|---|---|---|---|\n")
	for _, n := range requirements() {
		row, ok := rows[n]
		if !ok {
			row = fmt.Sprintf("| %d | something | open | - |\n", n)
		}
		b.WriteString(row)
	}
	b.WriteString(rows[0])
	return map[string]string{
		coverageFile:           b.String(),
		"claim/a_test.go":      "package claim\nfunc TestGrant() {}\n",
		"claim/testdata/x.txt": "script\n",
		"Makefile":             "bench: build\n",
	}
}

func TestCoverage(t *testing.T) {
	for _, c := range []struct{ name, row, want string }{
		{"open", "| 1 | x | open | - |\n", ""},
		{"test", "| 1 | x | shown | `TestGrant` |\n", ""},
		{"test of a package", "| 1 | x | shown | `claim.TestGrant/renewed`, `claim/testdata/x.txt` and `make bench` |\n", ""},
		{"test of another package", "| 1 | x | shown | `ring.TestGrant` |\n", "does not exist"},
		{"test that is gone", "| 1 | x | shown | `TestGranted` |\n", "does not exist"},
		{"file that is gone", "| 1 | x | shown | `claim/testdata/y.txt` |\n", "does not exist"},
		{"target that is gone", "| 1 | x | shown | `make sim` |\n", "does not exist"},
		{"stale name in an open row", "| 1 | x | open | `TestGranted` |\n", "does not exist"},
		{"shown by nothing", "| 1 | x | shown | trust me |\n", "names no evidence"},
		{"half", "| 1 | x | partly | - |\n", "neither shown nor open"},
		{"nothing promised", "| 1 |  | open | - |\n", "what is promised"},
		{"columns", "| 1 | a | b | open | - |\n", "5 columns"},
		{"missing", "", "number 1 is missing"},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, table(map[int]string{1: c.row}), c.want) })
	}
	t.Run("twice", func(t *testing.T) { expect(t, table(map[int]string{0: "| 2 | x | open | - |\n"}), "stands in line") })
	t.Run("never given out", func(t *testing.T) {
		expect(t, table(map[int]string{0: "| 119 | x | open | - |\n"}), "no requirement 119")
	})
}

// expect wants exactly one problem that says want, or none.
func expect(t *testing.T, sources map[string]string, want string) {
	t.Helper()
	ps := Coverage(parse(sources))
	if want == "" && len(ps) > 0 || want != "" && (len(ps) != 1 || !strings.Contains(ps[0].What, want)) {
		t.Errorf("want one problem saying %q, or none if empty; got %v", want, ps)
	}
}
