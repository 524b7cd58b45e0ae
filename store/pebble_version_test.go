package store

import (
	"os"
	"regexp"
	"testing"
)

// TestPebbleIsTheOneThatIsKnown: dropSpare calls a private function of Pebble and reaches into
// its DB. Before another version is taken, look there at freeMemTable and memTableRecycle:
// that the first one still takes a *memTable alone and gives its memory and its place in the
// cache back, and that the second one still holds what a flush leaves for the next memtable.
// Then put the version here.
func TestPebbleIsTheOneThatIsKnown(t *testing.T) {
	const known = "v2.1.7"
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^\s*github\.com/cockroachdb/pebble/v2 (\S+)`).FindSubmatch(mod)
	if m == nil || string(m[1]) != known {
		t.Errorf("go.mod has Pebble %s, and store/spare.go was read beside %s", m, known)
	}
	if regexp.MustCompile(`(?m)^(replace|\s).*pebble/v2\s.*=>`).Match(mod) {
		t.Error("go.mod replaces Pebble")
	}
	if !spareKnown {
		t.Error("there is no spare memtable where it was")
	}
}
