package faults

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestALiarForgets: what a disk that lies has kept is what it is asked to keep, of
// each file that has changed, and only of those.
func TestALiarForgets(t *testing.T) {
	dir, honest := filepath.Join(t.TempDir(), "is"), filepath.Join(t.TempDir(), "was")
	put := func(dir string, files map[string]string) {
		for name, text := range files {
			at := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	old := map[string]string{"same": "a", "grown": "b", "sub/gone": "c", "empty": ""}
	put(honest, old)
	put(dir, map[string]string{"same": "a", "grown": "bb", "sub/new": "d", "empty": ""})
	var asked []string
	ask := func(was, is []byte) []byte {
		asked = append(asked, string(was)+">"+string(is))
		return was
	}
	if err := forget(dir, honest, ask); err != nil {
		t.Fatal(err)
	}
	if want := []string{"b>bb", "c>", ">d"}; !slices.Equal(asked, want) {
		t.Errorf("asked about %q, want %q", asked, want)
	}
	got, err := contents(dir)
	if err != nil {
		t.Fatal(err)
	}
	text := map[string]string{}
	for name, b := range got {
		text[name] = string(b)
	}
	if !maps.Equal(text, old) {
		t.Errorf("it has %q, want %q", text, old)
	}
}
