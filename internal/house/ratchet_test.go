package house

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestMeasures prints the ratchets: `make check` shows them.
func TestMeasures(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := Load(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range Measures(tree) {
		t.Logf("ratchet: %s", m)
		if m.Is == 0 && m.Goal != 0 {
			t.Errorf("nothing is measured by %q", m.Name)
		}
	}
}

func TestRatchetsSeeWhatGrows(t *testing.T) {
	tree := parse(map[string]string{
		"node/core/a.go": "package core\n\ntype Core struct {\n\tx *x\n\tn int\n}\n\nfunc (c *Core) work() { c.x.work() }\n",
		"node/core/b.go": "package core\n\n// Invariant: n is positive.\ntype x struct {\n\tc *Core\n}\n\nfunc (x *x) work() { x.c.work() }\n",
	})
	d := newTypes(tree)
	if n, name := widestMachine(d, heart); n != 2 || name != "Core" {
		t.Errorf("the widest machine is %s with %d fields, not Core with 2", name, n)
	}
	if back := backPointers(d, heart); len(back) != 1 || back[0] != "x.c" {
		t.Errorf("pointers back are %v, not x.c", back)
	}
	if n, _ := fileLoop(tree, d, heart); n != 2 {
		t.Errorf("%d files need each other, not 2", n)
	}
	if n, _ := callLoop(tree, d, heart); n != 2 {
		t.Errorf("%d functions call each other, not 2", n)
	}
	if n, name := sameMethod(tree, heart); n != 2 || name != "node/core.work" {
		t.Errorf("%d methods are called %s, not 2 node/core.work", n, name)
	}
	if inv, com := shares(tree, "node"); inv < 60 || com < 6 || com > 7 {
		t.Errorf("%.1f invariants per 1,000 lines and %.1f %% of comments", inv, com)
	}
	m := Measure{Name: "lines", Is: 3, Limit: 2}
	if !m.broken() {
		t.Error("3 lines are not over 2")
	}
	if m.More = true; m.broken() {
		t.Error("3 are not under 2")
	}
}

func ratchetCases() []rulecase {
	machine := func(fields int) map[string]string {
		all := strings.Repeat("\t// Invariant: it is what it is.\n\tF int\n", fields)
		for i := range fields {
			all = strings.Replace(all, "\tF int", "\tf"+strings.Repeat("x", i)+" int", 1)
		}
		return map[string]string{"node/core/a.go": "package core\n\ntype Core struct {\n" + all + "}\n\nfunc (c *Core) work() {}\n"}
	}
	return []rulecase{
		{"a machine that grows", Ratchets, machine(coreFields + 1), []string{"internal/house/ratchet.go:1 fields of the widest machine"}},
		{"a machine that does not", Ratchets, machine(coreFields), nil},
	}
}
