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
	for name, another := range map[string]bool{"it is moved": false, "another one is there": true} {
		t.Run(name, func(t *testing.T) {
			c := testConfig(t)
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
			facts, elsewhere := filepath.Join(c.Data, factsDir), filepath.Join(c.Data, "elsewhere")
			err := os.Rename(facts, elsewhere)
			if another && err == nil {
				err = os.Mkdir(facts, 0o750)
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := <-failed; !errors.Is(err, ErrDirectory) {
				t.Errorf("it ends with %v, want ErrDirectory", err)
			}
			// Where it was, so that the store can be closed.
			if err := errors.Join(os.RemoveAll(facts), os.Rename(elsewhere, facts)); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := n.Stop(ctx); err != nil {
				t.Error(err)
			}
			if err := n.dir.close(); err != nil {
				t.Error(err)
			}
		})
	}
}
