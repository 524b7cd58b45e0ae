//go:build unix && !solaris && !aix

package command

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// What a process that was killed has left is removed by the next one, and nothing else:
// no directory that is occupied, none that is just being made, none with another name.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-2 * sweepAge)
	for _, name := range []string{"norn-task-left", "norn-task-runs", "norn-task-new", "other"} {
		d := filepath.Join(dir, name)
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d, "checkpoint"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if name == "norn-task-runs" {
			defer occupy(d)()
		}
		if name != "norn-task-new" {
			if err := os.Chtimes(d, old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "norn-task-file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	Handler(Config{TempDir: dir, Args: []string{"true"}})
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range left {
		names = append(names, e.Name())
	}
	if want := []string{"norn-task-file", "norn-task-new", "norn-task-runs", "other"}; !slices.Equal(names, want) {
		t.Errorf("left are %v, want %v", names, want)
	}
}
