package node

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// TestADataDirectoryThatGoesAway while the node runs: files that are open go on taking
// writes and syncs, so that it acknowledged what no start would find.
func TestADataDirectoryThatGoesAway(t *testing.T) {
	for name, take := range map[string]func(data, elsewhere string) error{
		"it is moved": os.Rename,
		"another one is there": func(data, elsewhere string) error {
			return errors.Join(os.Rename(filepath.Join(data, factsDir), elsewhere), os.Mkdir(filepath.Join(data, factsDir), 0o750))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := testConfig(t)
			c.Data = filepath.Join(c.Data, "data")
			c.DiskCheckInterval = time.Millisecond
			failed := make(chan error, 1)
			var looks atomic.Int64
			n := start(t, c, Options{Fatal: func(err error) {
				select {
				case failed <- err:
				default: // only the first one counts
				}
			}, FreeBytes: func(string) (uint64, error) { looks.Add(1); return math.MaxInt64, nil }})
			ready(t, n)
			begun := looks.Load()
			eventually(t, "it is looked at", func() bool { return looks.Load() > begun+1 })
			if err := take(c.Data, c.Data+"-elsewhere"); err != nil {
				t.Fatal(err)
			}
			if err := <-failed; !errors.Is(err, ErrDirectory) {
				t.Errorf("it ends with %v, want ErrDirectory", err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := n.Stop(ctx); err != nil {
				t.Error(err)
			}
			_ = n.dir.close() // it has no directory any more
		})
	}
}
