package node

import (
	"os"
	"path/filepath"
	"testing"
)

// TestEraseOnlyWhatIsOurs: other people's files stay, a crash in the middle does
// no harm, and the next start is a first one.
func TestEraseOnlyWhatIsOurs(t *testing.T) {
	c := testConfig(t)
	n := start(t, c, Options{})
	first := n.cluster.ID
	if n.Destroyed() {
		t.Error("nobody has destroyed it")
	}
	stop(t, n)
	mine := filepath.Join(c.Data, "mine")
	for _, name := range []string{mine, filepath.Join(c.Data, formattingFile)} { // as an Erase leaves it that was cut short
		if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := Erase(c.Data); err != nil {
			t.Fatal(err)
		}
	}
	left, err := os.ReadDir(c.Data)
	if err != nil || len(left) != 1 || left[0].Name() != "mine" {
		t.Fatalf("left are %v, %v", left, err)
	}
	n = start(t, c, Options{})
	defer stop(t, n)
	if n.cluster.ID == first {
		t.Error("it is the same cluster")
	}
}
