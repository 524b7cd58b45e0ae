package command

import (
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// tempPrefix begins the names of the directories of tasks that run.
	tempPrefix = "norn-task-"
	// sweepAge is how old such a directory must be to be nobody's: one that is just
	// being made is not occupied yet.
	sweepAge = time.Minute
)

// sweep removes the directories of tasks whose process was killed: those that nobody
// occupies. What cannot be removed is left for the next time.
func sweep(dir string, now time.Time) {
	if dir == "" {
		dir = os.TempDir()
	}
	all, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range all {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), tempPrefix) {
			continue
		}
		info, err := e.Info()
		if err != nil || now.Sub(info.ModTime()) < sweepAge {
			continue
		}
		if d := filepath.Join(dir, e.Name()); abandoned(d) {
			_ = os.RemoveAll(d)
		}
	}
}
