package node

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/norn-dev/norn/node/config"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/store"
)

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// copies reads both copies of a superblock as they are.
func copies(t *testing.T, data string) (all [2][]byte) {
	t.Helper()
	for i, name := range superblockFiles {
		all[i] = mustRead(t, filepath.Join(data, name))
	}
	return all
}

func spoil(t *testing.T, data string, slot int, b []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(data, superblockFiles[slot]), b, 0o640); err != nil {
		t.Fatal(err)
	}
}

// TestTheSuperblockIsHealedFromItsOtherCopy: whatever bit is turned over, and
// wherever it is cut, the bad copy is noticed, the good one counts, and the next
// write makes the bad one good.
func TestTheSuperblockIsHealedFromItsOtherCopy(t *testing.T) {
	data := t.TempDir()
	s := &superblocks{data: data}
	for range 5 {
		if err := s.write(func(b *superblock) {
			b.ClusterID, b.Node, b.Incarnation, b.Boot, b.Mark = "c", "n", "i", b.Boot+1, b.Mark+markStep
		}); err != nil {
			t.Fatal(err)
		}
	}
	good := copies(t, data)
	newer := 1 - s.slot
	for slot, whole := range good {
		var bad [][]byte
		for i := range whole {
			flipped := bytes.Clone(whole)
			flipped[i] ^= 1 << (i % 8)
			bad = append(bad, flipped, whole[:i])
		}
		bad = append(bad, append(bytes.Clone(whole), 'x'), make([]byte, len(whole)))
		for n, b := range bad {
			spoil(t, data, slot, b)
			got, file, err := readSuperblock(data)
			want := uint64(5)
			if slot == newer {
				want = 4
			}
			if err != nil || file != superblockFiles[slot] || got.slot != slot || got.last.Sequence != want || got.last.Boot != want {
				t.Fatalf("damage %d of copy %d: %+v, %q, %v", n, slot, got, file, err)
			}
		}
		got, _, err := readSuperblock(data)
		if err == nil {
			err = got.raise(99999)
		}
		if err != nil {
			t.Fatal(err)
		}
		if healed, file, err := readSuperblock(data); err != nil || file != "" || healed.last.Mark != 99999 {
			t.Fatalf("after a write: %+v, %q, %v", healed, file, err)
		}
		for i, b := range good {
			spoil(t, data, i, b)
		}
	}
}

// TestACopyOnABadSectorIsDamaged: the disk gives an error instead of wrong bytes. The
// other copy counts, and the next write puts a new file in the place of the bad one.
func TestACopyOnABadSectorIsDamaged(t *testing.T) {
	const unreadable = "/proc/self/mem" // its first byte is mapped nowhere
	if _, err := os.ReadFile(unreadable); !errors.Is(err, syscall.EIO) {
		t.Skipf("NOT RUN: no file that gives an I/O error: %v", err)
	}
	for slot, file := range superblockFiles {
		data := t.TempDir()
		s := &superblocks{data: data}
		for range 4 {
			if err := s.raise(markStep); err != nil {
				t.Fatal(err)
			}
		}
		path := filepath.Join(data, file)
		if err := errors.Join(os.Remove(path), os.Symlink(unreadable, path)); err != nil {
			t.Fatal(err)
		}
		got, bad, err := readSuperblock(data)
		if err != nil || bad != file || got.slot != slot || got.last.Mark != markStep {
			t.Fatalf("%s: %+v, %q, %v", file, got, bad, err)
		}
		if err := got.raise(2 * markStep); err != nil {
			t.Fatal(err)
		}
		if got, bad, err = readSuperblock(data); err != nil || bad != "" || got.last.Mark != 2*markStep {
			t.Errorf("%s, and then: %+v, %q, %v", file, got, bad, err)
		}
	}
}

// TestWithoutASuperblockNothingStarts: with both copies bad, or gone, the node
// refuses and says what to do; so it does when it names another node than the
// identity. A directory of a build that had none gets one.
func TestWithoutASuperblockNothingStarts(t *testing.T) {
	t.Parallel() // it has directories of its own, and waits for its disk
	for name, tc := range map[string]struct {
		spoil func(t *testing.T, c *config.Config)
		says  string
	}{
		"both damaged": {func(t *testing.T, c *config.Config) {
			all := copies(t, c.Data)
			spoil(t, c.Data, 0, all[0][:len(all[0])/2])
			all[1][10] ^= 4
			spoil(t, c.Data, 1, all[1])
		}, "both copies of the superblock"},
		"one damaged and one gone": {func(t *testing.T, c *config.Config) {
			spoil(t, c.Data, 0, nil)
			if err := os.Remove(filepath.Join(c.Data, superblockFiles[1])); err != nil {
				t.Fatal(err)
			}
		}, "superblock"},
		"both gone": {func(t *testing.T, c *config.Config) {
			for _, name := range superblockFiles {
				if err := os.Remove(filepath.Join(c.Data, name)); err != nil {
					t.Fatal(err)
				}
			}
		}, "are gone"},
		"the identity has turned": {func(t *testing.T, c *config.Config) {
			other := formatted(t)
			var mine, theirs identity
			if err := errors.Join(json.Unmarshal(mustRead(t, filepath.Join(c.Data, identityFile)), &mine), json.Unmarshal(mustRead(t, filepath.Join(other.Data, identityFile)), &theirs)); err != nil {
				t.Fatal(err)
			}
			rewrite(t, filepath.Join(c.Data, identityFile), mine.ClusterID, theirs.ClusterID)
		}, "and its superblock"},
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

// TestTheSuperblockKnowsMoreThanASetBackStore: a later start than the register's
// store has, or a higher mark than the facts', means that something acknowledged
// is gone.
func TestTheSuperblockKnowsMoreThanASetBackStore(t *testing.T) {
	c := formatted(t)
	if _, _, err := readSuperblock(t.TempDir()); !errors.Is(err, errNoSuperblock) {
		t.Errorf("an empty directory: %v", err)
	}
	stop(t, start(t, c, Options{}))
	s, bad, err := readSuperblock(c.Data)
	if err != nil || bad != "" || s.last.Boot != 2 {
		t.Fatalf("%+v, %q, %v", s, bad, err)
	}
	open := func(dir string) (*store.Pebble, error) {
		return store.OpenPebble(store.PebbleOptions{Dir: dir, MemTable: 1 << 20, Cache: 1 << 20})
	}
	full := *c
	full.Complete()
	d, err := openDirectory(t.Context(), &full, nil, open)
	if err != nil || d.setBack || d.boot != 3 {
		t.Fatalf("%+v, %v", d, err)
	}
	var b store.Batch
	b.Set(bootKey, binary.BigEndian.AppendUint64(nil, 1))
	d.register.Commit(&b)()
	if err := errors.Join(d.super.raise(5000), d.close()); err != nil {
		t.Fatal(err)
	}
	if d, err = openDirectory(t.Context(), &full, nil, open); err != nil || !d.setBack || d.super.last.Mark != 5000 {
		t.Fatalf("a store of the first start: %+v, %v", d, err)
	}
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
}

// TestWhatALogLostAfterACleanStop: a log that was deleted or emptied while the node was down
// is damage; the end of one that was cut off is missed, in either store; after a kill nothing
// tells.
func TestWhatALogLostAfterACleanStop(t *testing.T) {
	t.Parallel() // it has directories of its own, and waits for its disk
	spoils := map[string]func(log string) error{
		"untouched": func(string) error { return nil },
		"deleted":   os.Remove,
		"emptied":   func(log string) error { return os.Truncate(log, 0) },
		"cut off": func(log string) error {
			b, err := os.ReadFile(log)
			if err == nil { // it is longer than what was written
				err = os.Truncate(log, int64(len(bytes.TrimRight(b, "\x00"))-30))
			}
			return err
		},
	}
	for _, of := range []string{factsDir, registerDir} {
		for name, spoil := range spoils {
			t.Run(of+" "+name, func(t *testing.T) {
				c := formatted(t)
				stop(t, start(t, c, Options{}))
				logs, err := filepath.Glob(filepath.Join(c.Data, of, "*.wal"))
				if err != nil || len(logs) == 0 {
					t.Fatalf("%v, %v", logs, err)
				}
				if err := spoil(logs[0]); err != nil { // behind it are spare ones
					t.Fatal(err)
				}
				full := *c
				full.Complete()
				open := func(dir string) (*store.Pebble, error) {
					return store.OpenPebble(store.PebbleOptions{Dir: dir, MemTable: 1 << 20, Cache: 1 << 20})
				}
				d, err := openDirectory(t.Context(), &full, nil, open)
				if name == "deleted" || name == "emptied" {
					if !errors.Is(err, store.ErrDamaged) {
						t.Errorf("%v, want ErrDamaged", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if err := d.close(); err != nil {
					t.Fatal(err)
				}
				if d.setBack != (name != "untouched") {
					t.Errorf("set back: %v", d.setBack)
				}
				// It did not end as it should, so the next start knows no more than the stores say.
				if d, err = openDirectory(t.Context(), &full, nil, open); err != nil {
					t.Fatal(err)
				}
				if err := d.close(); err != nil || d.setBack && of == factsDir {
					t.Errorf("after a kill: %v, %v", d.setBack, err)
				}
			})
		}
	}
}

// TestALoneNodeThatHasLostSomethingSaysSo: it goes on, for nobody else has what it has.
func TestALoneNodeThatHasLostSomethingSaysSo(t *testing.T) {
	c := formatted(t)
	stop(t, start(t, c, Options{}))
	logs, err := filepath.Glob(filepath.Join(c.Data, factsDir, "*.wal"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("%v, %v", logs, err)
	}
	b, err := os.ReadFile(logs[0])
	if err == nil {
		err = os.Truncate(logs[0], int64(len(bytes.TrimRight(b, "\x00"))-30))
	}
	if err != nil {
		t.Fatal(err)
	}
	var said lines
	n := start(t, c, Options{Logger: slog.New(slog.NewTextHandler(&said, nil))})
	eventually(t, "it says so", func() bool {
		return strings.Contains(said.String(), "its superblock knows of more") && strings.Contains(said.String(), "this one goes on")
	})
	connect(t, n).enqueue(&nornv1.TaskSpec{Queue: "q"})
	stop(t, n)
}

// TestASuperblockOfANewerVersionIsLeftAlone: what it says that this build cannot read may be
// a promise.
func TestASuperblockOfANewerVersionIsLeftAlone(t *testing.T) {
	data := t.TempDir()
	s := &superblocks{data: data}
	if err := s.write(func(b *superblock) { b.Node = "n" }); err != nil {
		t.Fatal(err)
	}
	newer := s.last
	newer.FormatVersion, newer.Sequence = formatVersion+1, 2
	b, err := newer.encode()
	if err != nil {
		t.Fatal(err)
	}
	spoil(t, data, 1, b)
	if _, _, err := readSuperblock(data); !errors.Is(err, ErrDirectory) || !strings.Contains(err.Error(), "newer version") {
		t.Errorf("it is read: %v", err)
	}
}

// TestTheMarkOfTheSuperblockNeverFalls: notes of it are made beside each other.
func TestTheMarkOfTheSuperblockNeverFalls(t *testing.T) {
	data := t.TempDir()
	s := &superblocks{data: data}
	for _, mark := range []uint64{10, 30, 20} {
		if err := s.raise(mark); err != nil {
			t.Fatal(err)
		}
	}
	if got, _, err := readSuperblock(data); err != nil || got.last.Mark != 30 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestWhoseSuperblockItIs: one of another incarnation of the same node is of another directory.
func TestWhoseSuperblockItIs(t *testing.T) {
	data := t.TempDir()
	s := &superblocks{data: data}
	if err := s.write(func(b *superblock) { b.ClusterID, b.Node, b.Incarnation = "c", "n", "i" }); err != nil {
		t.Fatal(err)
	}
	have := identity{ClusterID: "c", Node: "n", Incarnation: "i"}
	if err := (&directory{}).superblockOf(data, &have); err != nil {
		t.Errorf("its own: %v", err)
	}
	have.Incarnation = "j"
	if err := (&directory{}).superblockOf(data, &have); !errors.Is(err, ErrDirectory) {
		t.Errorf("of another incarnation: %v", err)
	}
}

// TestASuperblockThatCannotBeReadIsNotGone: nor is one that cannot be written a matter of the
// log alone.
func TestASuperblockThatCannotBeReadIsNotGone(t *testing.T) {
	data := t.TempDir()
	s := &superblocks{data: data}
	if err := s.raise(1); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(data, superblockFiles[1], "x"), 0o750); err != nil {
		t.Fatal(err)
	}
	if _, _, err := readSuperblock(data); err == nil {
		t.Error("what cannot be read is taken for gone")
	}
	var failed error
	s.keep(2, func(err error) { failed = err })
	if failed == nil {
		t.Error("a mark that was not written is taken for written")
	}
}

// TestADirectoryOfTheFormatBefore is brought to this build's: the build before refuses it from
// then on, and what was in it is there.
func TestADirectoryOfTheFormatBefore(t *testing.T) {
	c := formatted(t)
	n := start(t, c, Options{})
	connect(t, n).enqueue(&nornv1.TaskSpec{Queue: "q"})
	stop(t, n)
	setFormat := func(format int) {
		t.Helper()
		super, _, err := readSuperblock(c.Data)
		if err != nil {
			t.Fatal(err)
		}
		for range superblockFiles {
			super.last.Sequence++
			super.last.FormatVersion = format
			b, err := json.Marshal(super.last)
			if err == nil {
				err = os.WriteFile(filepath.Join(c.Data, superblockFiles[super.last.Sequence%2]), fmt.Appendf(nil, "%s\n%016x\n", b, xxhash.Sum64(b)), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		name := filepath.Join(c.Data, identityFile)
		b, err := os.ReadFile(name)
		if err == nil {
			b = regexp.MustCompile(`"format_version": \d+`).ReplaceAll(b, fmt.Appendf(nil, `"format_version": %d`, format))
			err = os.WriteFile(name, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	setFormat(formatVersion - 1)
	var said lines
	n = start(t, c, Options{Logger: slog.New(slog.NewTextHandler(&said, nil))})
	if g := connect(t, n).claim(&nornv1.ClaimRequest{Queues: []string{"q"}}); len(g) != 1 {
		t.Errorf("claimed %v", g)
	}
	stop(t, n)
	if !strings.Contains(said.String(), "node.format") {
		t.Error("it does not say that it has changed the format")
	}
	if super, _, err := readSuperblock(c.Data); err != nil || super.last.FormatVersion != formatVersion {
		t.Errorf("%+v, %v", super, err)
	}
	setFormat(formatVersion - 2)
	if _, err := Start(c, Options{}); !errors.Is(err, ErrDirectory) {
		t.Errorf("an unreleased format: %v", err)
	}
}
