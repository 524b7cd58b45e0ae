package hunt

import (
	"os"
	"path/filepath"
	"testing"
)

// TestOnlyItsOwnJudgementFinds: of a test that falls, or runs for too long, nobody knows what
// it would have said, and another test is there for another rule.
func TestOnlyItsOwnJudgementFinds(t *testing.T) {
	u := Unit{"p", "TestA|TestB"}
	for what, c := range map[string]struct{ out, want string }{
		"it fails":            {"=== RUN   TestB\n--- FAIL: TestB (0.00s)\n    x_test.go:1: no\nFAIL\n", "TestB"},
		"all pass":            {"--- PASS: TestA (0.00s)\n--- PASS: TestB (0.00s)\nPASS\n", ""},
		"another one fails":   {"--- FAIL: TestAll (0.00s)\nFAIL\n", ""},
		"it falls":            {"--- FAIL: TestA (0.00s)\npanic: on purpose\n", ""},
		"its time is over":    {"=== RUN   TestA\npanic: test timed out after 1m30s\n", ""},
		"a part of it fails":  {"--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/one (0.00s)\nFAIL\n", "TestA"},
		"a part of none does": {"    --- FAIL: TestC/TestA (0.00s)\n", ""},
	} {
		if got := failed(c.out, u); got != c.want {
			t.Errorf("%s: found by %q, want %q", what, got, c.want)
		}
	}
}

// TestPackagesAreBuiltOnce: each whose tests find something, by name.
func TestPackagesAreBuiltOnce(t *testing.T) {
	got := Packages([]Quarry{by("b", "TestX", 1), by("a", "TestY", 2), on(OneNode, 3), by("b", "TestZ", 4)})
	if len(got) != 2 || got[0] != "a" || got[1] != "b" {
		t.Errorf("packages %v", got)
	}
}

// TestAMistakeLeavesNoFailures: what a property has failed with is tried again by each run of
// its test, and a mistake is no reason for that.
func TestAMistakeLeavesNoFailures(t *testing.T) {
	dir := t.TempDir()
	of := filepath.Join(dir, "testdata", "rapid", "TestX")
	if err := os.MkdirAll(of, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(name string) {
		if err := os.WriteFile(filepath.Join(of, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("old.fail")
	remove := tidy(dir)
	write("new.fail")
	remove()
	left, err := os.ReadDir(of)
	if err != nil || len(left) != 1 || left[0].Name() != "old.fail" {
		t.Errorf("left are %v, %v", left, err)
	}
}
