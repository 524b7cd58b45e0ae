package archive

import (
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// memory is a file system in memory that loses at a crash what was not synced.
type memory struct{ fs *vfs.MemFS }

const memDir = "archive"

// newMemory makes one with an empty directory that is durable.
func newMemory(t testing.TB) memory {
	t.Helper()
	m := memory{vfs.NewCrashableMem()}
	if err := m.fs.MkdirAll(memDir, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := m.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	return m
}

// crash gives what may be there after a power failure now: of what was not
// synced so many percent, each for itself.
func (m memory) crash(t testing.TB, percent int, seed uint64) memory {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 7))
	after := memory{m.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng})}
	// A clone undoes every removal that was not synced; a disk some of them.
	now, err := m.List(memDir, "")
	if err != nil {
		t.Fatal(err)
	}
	then, err := after.List(memDir, "")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(then)
	for _, name := range then {
		if !slices.Contains(now, name) && rng.IntN(100) < percent {
			if err := after.Remove(memDir + "/" + name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := after.SyncDir(memDir); err != nil {
		t.Fatal(err)
	}
	return after
}

func (m memory) Create(name string) (file, error) {
	if _, err := m.fs.Stat(name); err == nil {
		return nil, os.ErrExist
	}
	f, err := m.fs.Create(name, vfs.WriteCategoryUnspecified)
	return memoryFile{f}, err
}

// memoryFile keeps the contract of io.Writer: with -race a vfs.File mangles
// what it was given.
type memoryFile struct{ vfs.File }

func (f memoryFile) Write(p []byte) (int, error) { return f.File.Write(slices.Clone(p)) }

func (m memory) Open(name string) (io.ReadCloser, error) { return m.fs.Open(name) }
func (m memory) Rename(from, to string) error            { return m.fs.Rename(from, to) }
func (m memory) Remove(name string) error                { return m.fs.Remove(name) }

func (m memory) List(dir, begin string) ([]string, error) {
	names, err := m.fs.List(dir)
	return slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, begin) }), err
}

func (m memory) SyncDir(dir string) error {
	d, err := m.fs.OpenDir(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// faulty asks before each operation whether it fails. done says whether it
// happens all the same: half of it for a write.
type faulty struct {
	fileSystem
	ask func(op, name string) (done bool, err error)
}

func (f faulty) do(op, name string, act func() error) error {
	done, err := f.ask(op, filepath.Base(name))
	if err == nil || done {
		if acted := act(); err == nil {
			err = acted
		}
	}
	return err
}

func (f faulty) Create(name string) (out file, err error) {
	var made file
	if err := f.do("create", name, func() (err error) { made, err = f.fileSystem.Create(name); return }); err != nil {
		return nil, err
	}
	return &faultyFile{f, name, made}, nil
}

func (f faulty) Open(name string) (out io.ReadCloser, err error) {
	var opened io.ReadCloser
	if err := f.do("open", name, func() (err error) { opened, err = f.fileSystem.Open(name); return }); err != nil {
		return nil, err
	}
	return &faultyReader{f, name, opened}, nil
}

func (f faulty) Rename(from, to string) error {
	return f.do("rename", from, func() error { return f.fileSystem.Rename(from, to) })
}

func (f faulty) Remove(name string) error {
	return f.do("remove", name, func() error { return f.fileSystem.Remove(name) })
}

func (f faulty) List(dir, begin string) (names []string, err error) {
	err = f.do("list", dir, func() (err error) { names, err = f.fileSystem.List(dir, begin); return })
	return names, err
}

func (f faulty) SyncDir(dir string) error {
	return f.do("syncdir", dir, func() error { return f.fileSystem.SyncDir(dir) })
}

type faultyFile struct {
	faulty
	name string
	file
}

func (f *faultyFile) Write(p []byte) (n int, err error) {
	part := len(p)
	done, err := f.ask("write", filepath.Base(f.name))
	if err != nil {
		part = 0
		if done {
			part = len(p) / 2
		}
	}
	n, wrote := f.file.Write(p[:part])
	if err == nil {
		err = wrote
	}
	return n, err
}

func (f *faultyFile) Sync() error  { return f.do("sync", f.name, f.file.Sync) }
func (f *faultyFile) Close() error { return f.do("close", f.name, f.file.Close) }

type faultyReader struct {
	faulty
	name string
	io.ReadCloser
}

func (f *faultyReader) Read(p []byte) (n int, err error) {
	err = f.do("read", f.name, func() (err error) { n, err = f.ReadCloser.Read(p); return })
	if err != nil && err != io.EOF {
		n = 0
	}
	return n, err
}
