package house

import (
	"fmt"
	"path/filepath"
	"testing"
)

// TestHouse applies every rule to this repository.
func TestHouse(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := Load(root)
	if err != nil {
		t.Fatal(err)
	}
	if tree.File("go.mod") == nil || len(tree.Go(true)) < 10 {
		t.Fatalf("found %d Go files and no go.mod below %s: this is not the repository", len(tree.Go(true)), root)
	}
	t.Log(LengthReport(tree))
	for _, rule := range Rules() {
		t.Run(rule.Name, func(t *testing.T) {
			for _, p := range Excuse(tree, rule.Name, rule.Check(tree), Exceptions()) {
				t.Errorf("%s", p)
			}
		})
	}
}

// TestRowsAreUsable keeps the import table itself in order.
func TestRowsAreUsable(t *testing.T) {
	rows, seen := Rows(), map[string]bool{}
	for _, r := range rows {
		if seen[r.Dir] {
			t.Errorf("two rows for %s", r.Dir)
		}
		seen[r.Dir] = true
		if r.Why == "" {
			t.Errorf("row %s has no reason", r.Dir)
		}
	}
	for _, r := range rows {
		for _, d := range append(append([]string{}, r.Only...), r.Never...) {
			to, ok := rowOf(rows, d)
			if !ok || to.Dir != d {
				t.Errorf("row %s speaks of %s, which has no row", r.Dir, d)
			}
		}
		for _, d := range r.Only {
			if to, _ := rowOf(rows, d); to.Layer > r.Layer {
				t.Errorf("row %s (layer %d) allows %s (layer %d), which is above it", r.Dir, r.Layer, d, to.Layer)
			}
		}
	}
}

func TestProblemTellsEverything(t *testing.T) {
	p := Problem{Path: "a/b.go", Line: 7, Rule: "no-init", What: "func init", Why: "order", Do: "call it"}
	want := "a/b.go:7: no-init: func init\n\twhy: order\n\tdo:  call it"
	if got := p.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestEveryProblemHasWhyAndDo(t *testing.T) {
	for _, c := range cases() {
		for _, p := range c.check(parse(c.sources)) {
			if p.Why == "" || p.Do == "" || p.Rule == "" || p.Path == "" || p.What == "" {
				t.Errorf("%s: incomplete problem: %+v", c.name, p)
			}
		}
	}
}

func TestExceptions(t *testing.T) {
	tree := parse(map[string]string{"ring/a.go": "package ring\n\nfunc init() {}\n"})
	ps := NoInit(tree)
	if len(ps) != 1 {
		t.Fatalf("got %d problems, want 1", len(ps))
	}
	fits := Exception{Rule: "no-init", Path: "ring", What: "init", Why: "test"}
	if left := Excuse(tree, "no-init", ps, []Exception{fits}); len(left) != 0 {
		t.Errorf("an excused problem is left: %v", left)
	}
	if left := Excuse(tree, "no-init", ps, []Exception{{Rule: "no-init", Path: "rin", What: "init"}}); len(left) != 1 {
		t.Errorf("an exception for rin excuses ring: %v", left)
	}
	if left := Excuse(tree, "no-init", nil, []Exception{fits}); len(left) != 1 {
		t.Errorf("an exception that excuses nothing is not reported: %v", left)
	}
	if left := Excuse(tree, "mutex", nil, []Exception{fits}); len(left) != 0 {
		t.Errorf("an exception of another rule is reported: %v", left)
	}
}

func TestLoadLeavesOutWhatIsNotSource(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a/a.go", "package a\n")
	write(t, dir, "a/testdata/broken.go", "not Go")
	write(t, dir, "bin/x.go", "package x\n")
	write(t, dir, ".ci/x.go", "not Go")
	write(t, dir, "a/picture", "\x00\x01")
	tree, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(len(tree.Go(true)), len(tree.Files), tree.Paths["a/picture"], tree.Paths["bin/x.go"], len(Parses(tree)))
	if want := "1 3 true false 0"; got != want {
		t.Errorf("got %s, want %s (Go files, text files, picture known, bin known, parse errors)", got, want)
	}
}
