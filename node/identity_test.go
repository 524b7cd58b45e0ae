package node

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/norn-dev/norn/node/config"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// formatted makes a data directory with one task in it.
func formatted(t *testing.T) *config.Config {
	t.Helper()
	c := testConfig(t)
	n := start(t, c, Options{})
	connect(t, n).enqueue(&nornv1.TaskSpec{Queue: "q"})
	stop(t, n)
	return c
}

func rewrite(t *testing.T, path, old, replacement string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	after := strings.Replace(string(b), old, replacement, 1)
	if after == string(b) {
		t.Fatalf("%q is not in %s", old, b)
	}
	if err := os.WriteFile(path, []byte(after), 0o640); err != nil {
		t.Fatal(err)
	}
}

// TestForeignDirectoriesAreRefused: a directory that is not what it should be
// is left as it is, with a reason.
func TestForeignDirectoriesAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(t *testing.T, c *config.Config)
		says  string
	}{
		"written by a newer version": {func(t *testing.T, c *config.Config) {
			rewrite(t, filepath.Join(c.Data, identityFile), `"format_version": 1`, `"format_version": 2`)
		}, "newer version"},
		"identity damaged": {func(t *testing.T, c *config.Config) {
			rewrite(t, filepath.Join(c.Data, identityFile), "{", "")
		}, "damaged"},
		"identity gone": {func(t *testing.T, c *config.Config) {
			if err := os.Remove(filepath.Join(c.Data, identityFile)); err != nil {
				t.Fatal(err)
			}
		}, "damaged is not the same as new"},
		"another node": {func(_ *testing.T, c *config.Config) { c.Name = "other" }, "belongs to node"},
		"stores of different origin": {func(t *testing.T, c *config.Config) {
			other := formatted(t)
			if err := os.RemoveAll(filepath.Join(c.Data, registerDir)); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(filepath.Join(other.Data, registerDir), filepath.Join(c.Data, registerDir)); err != nil {
				t.Fatal(err)
			}
		}, "different origin"},
	} {
		t.Run(name, func(t *testing.T) {
			c := formatted(t)
			tc.spoil(t, c)
			n, err := Start(c, Options{})
			if err == nil {
				stop(t, n)
			}
			if !errors.Is(err, ErrDirectory) || !strings.Contains(err.Error(), tc.says) {
				t.Fatalf("%v, want ErrDirectory that says %q", err, tc.says)
			}
		})
	}
}

// TestInterruptedFormattingStartsOver: until the identity is there nothing was
// acknowledged, so a first start that was killed is no obstacle.
func TestInterruptedFormattingStartsOver(t *testing.T) {
	c := testConfig(t)
	if err := os.MkdirAll(filepath.Join(c.Data, factsDir), 0o750); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{formattingFile, filepath.Join(factsDir, "half")} {
		if err := os.WriteFile(filepath.Join(c.Data, name), nil, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	n := start(t, c, Options{})
	defer stop(t, n)
	connect(t, n).enqueue(&nornv1.TaskSpec{Queue: "q"})
}

// TestPartitionsCountOnlyAtTheFirstStart: later values of what is fixed with
// the cluster are ignored.
func TestPartitionsCountOnlyAtTheFirstStart(t *testing.T) {
	c := formatted(t)
	c.Partitions = 8
	n := start(t, c, Options{})
	defer stop(t, n)
	if _, reply, err := dial(t, n, &nornv1.Hello{MinVersion: 1, MaxVersion: 1}); err != nil || reply.Placement.Partitions != 64 {
		t.Fatalf("%d partitions, %v, want the 64 of the first start", reply.GetPlacement().GetPartitions(), err)
	}
}
