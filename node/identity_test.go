package node

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/norn-dev/norn/node/config"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/store"
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
	t.Parallel() // it has directories of its own, and waits for its disk
	for name, tc := range map[string]struct {
		spoil func(t *testing.T, c *config.Config)
		says  string
	}{
		"written by a newer version": {func(t *testing.T, c *config.Config) {
			rewrite(t, filepath.Join(c.Data, identityFile), `"format_version": 3`, `"format_version": 4`)
		}, "newer version"},
		"of a life before, written by a newer version": {func(t *testing.T, c *config.Config) {
			rewrite(t, filepath.Join(c.Data, identityFile), `"format_version": 3`, `"format_version": 4`)
			if err := os.Rename(filepath.Join(c.Data, identityFile), filepath.Join(c.Data, oldLifeFile)); err != nil {
				t.Fatal(err)
			}
			c.Join = []string{"127.0.0.1:1"}
		}, "newer version"},
		"identity damaged": {func(t *testing.T, c *config.Config) {
			rewrite(t, filepath.Join(c.Data, identityFile), "{", "")
		}, "damaged"},
		"a bit of the number of partitions": {func(t *testing.T, c *config.Config) {
			rewrite(t, filepath.Join(c.Data, identityFile), `"partitions": 64`, `"partitions": 65`)
		}, "damaged"},
		"a bit of the number of replicas": {func(t *testing.T, c *config.Config) {
			rewrite(t, filepath.Join(c.Data, identityFile), `"replicas": 3`, `"replicas": 2`)
		}, "damaged"},
		"a store is gone": {func(t *testing.T, c *config.Config) {
			if err := os.RemoveAll(filepath.Join(c.Data, factsDir)); err != nil {
				t.Fatal(err)
			}
		}, "damaged is not the same as new"},
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

// TestWhatIsLeftOfADirectoryIsDamage: a directory that has lost its identity is not formatted
// anew over anything that may know what it had promised.
func TestWhatIsLeftOfADirectoryIsDamage(t *testing.T) {
	for name, gone := range map[string][]string{
		"without facts":       {factsDir},
		"without stores":      {factsDir, registerDir},
		"a superblock alone":  {factsDir, registerDir, superblockFiles[0]},
		"the register alone":  {factsDir, superblockFiles[0], superblockFiles[1]},
		"without superblocks": {superblockFiles[0], superblockFiles[1]},
	} {
		t.Run(name, func(t *testing.T) {
			c := formatted(t)
			for _, what := range append(gone, identityFile) {
				if err := os.RemoveAll(filepath.Join(c.Data, what)); err != nil {
					t.Fatal(err)
				}
			}
			n, err := Start(c, Options{})
			if err == nil {
				stop(t, n)
			}
			if !errors.Is(err, ErrDirectory) || !strings.Contains(err.Error(), "damaged is not the same as new") {
				t.Errorf("%v", err)
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

// TestAJoinerBeginsNoClusterOfItsOwn when it is started once more without --join: what it
// acknowledged there would be of another cluster than the one it is to be of.
func TestAJoinerBeginsNoClusterOfItsOwn(t *testing.T) {
	c := testConfig(t)
	c.Join = []string{"127.0.0.1:1"}
	stop(t, start(t, c, Options{}))
	c.Join = nil
	n, err := Start(c, Options{})
	if err == nil {
		stop(t, n)
	}
	if !errors.Is(err, ErrDirectory) || !strings.Contains(err.Error(), "start it with --join") {
		t.Fatalf("%v", err)
	}
	if err := os.Remove(filepath.Join(c.Data, joiningFile)); err != nil { // as it says
		t.Fatal(err)
	}
	n = start(t, c, Options{})
	defer stop(t, n)
	ready(t, n)
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

// TestANodeThatWasLetInAgainKeepsItsRegister: what says that it waits to be let in was
// deleted, and is there again after a power failure.
func TestANodeThatWasLetInAgainKeepsItsRegister(t *testing.T) {
	c := testConfig(t)
	c.Complete()
	open := func(dir string) (*store.Pebble, error) {
		return store.OpenPebble(store.PebbleOptions{Dir: dir, Logger: slog.New(slog.DiscardHandler), Fatal: func(err error) { t.Error(err) }})
	}
	opened := func() *directory {
		t.Helper()
		d, err := openDirectory(t.Context(), c, nil, open)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	check := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	old := opened()
	cluster := old.cluster
	check(old.expire(c.Data, []string{"127.0.0.1:1"}), old.close())
	waiting := make(map[string][]byte)
	for _, name := range []string{oldLifeFile, joiningFile} {
		b, err := os.ReadFile(filepath.Join(c.Data, name))
		check(err)
		waiting[name] = b
	}
	d := opened()
	if !d.joins() || d.self.Incarnation == old.self.Incarnation {
		t.Fatal("it does not wait to be let in under another incarnation")
	}
	check(d.enter(c, cluster, open))
	var b store.Batch
	b.Set([]byte("promise"), []byte("kept"))
	d.register.Commit(&b)()
	check(d.close())
	for _, back := range [][]string{{oldLifeFile, joiningFile}, {oldLifeFile}, {joiningFile}} {
		for _, name := range back {
			check(os.WriteFile(filepath.Join(c.Data, name), waiting[name], 0o640))
		}
		again := opened()
		if again.joins() || again.self != d.self {
			t.Fatalf("with %v: it waits to be let in: %v, as %v", back, again.joins(), again.self)
		}
		if _, ok := again.register.Get([]byte("promise")); !ok {
			t.Fatalf("with %v: its register is gone", back)
		}
		check(again.close())
	}
}

// TestADirectoryHasOneProcess: also while it is empty, is being made, or waits to be let into
// a cluster; whoever comes second changes nothing in it.
func TestADirectoryHasOneProcess(t *testing.T) {
	refused := func(c *config.Config) {
		t.Helper()
		n, err := Start(c, Options{})
		if err == nil {
			stop(t, n)
		}
		if !errors.Is(err, store.ErrLocked) {
			t.Errorf("%v, want ErrLocked", err)
		}
	}
	c := testConfig(t)
	if err := os.MkdirAll(c.Data, 0o750); err != nil {
		t.Fatal(err)
	}
	lock, err := store.LockDirectory(c.Data) // as one has that formats it
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.Data, formattingFile), nil, 0o640); err != nil {
		t.Fatal(err)
	}
	refused(c)
	if exists(filepath.Join(c.Data, factsDir)) {
		t.Error("it was formatted all the same")
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	stop(t, start(t, c, Options{}))
	stop(t, start(t, c, Options{}))

	joins := joinConfig(t, "b")
	joins.Join = []string{"127.0.0.1:1"}
	waits := start(t, joins, Options{})
	second := *joins
	second.Name = "c"
	refused(&second)
	stop(t, waits)
	stop(t, start(t, joins, Options{}))
}
