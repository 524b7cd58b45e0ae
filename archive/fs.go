package archive

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// fileSystem is what an archive needs of a disk. Tests put failures and crashes
// behind it.
type fileSystem interface {
	// Create makes a new file for writing; it gives fs.ErrExist when there is one.
	Create(name string) (file, error)
	Open(name string) (io.ReadCloser, error)
	Rename(from, to string) error
	Remove(name string) error
	// List gives the names in a directory that begin so, in no particular order.
	List(dir, begin string) ([]string, error)
	// SyncDir makes creations, renames and removals in a directory durable.
	SyncDir(dir string) error
}

// file is a file being written.
type file interface {
	io.Writer
	// Sync makes what was written durable.
	Sync() error
	Close() error
}

// disk is the file system of the machine.
type disk struct{}

func (disk) Create(name string) (file, error) {
	// Payloads may be secret: the group may read them, the world may not.
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o660)
	if err != nil {
		return nil, err
	}
	return diskFile{f}, nil
}

// diskFile forgets its pages after an fsync: see doc.go.
type diskFile struct{ *os.File }

func (f diskFile) Sync() error {
	if err := f.File.Sync(); err != nil {
		return err
	}
	forget(f.File)
	return nil
}

func (disk) Open(name string) (io.ReadCloser, error) {
	// A pipe in the place of a file would be waited for.
	if info, err := os.Stat(name); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, &os.PathError{Op: "open", Path: name, Err: errors.New("not a regular file")}
	}
	return os.Open(name)
}

func (disk) Rename(from, to string) error { return os.Rename(from, to) }
func (disk) Remove(name string) error     { return os.Remove(name) }

func (disk) List(dir, begin string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	return slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, begin) }), err
}

func (disk) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// makeDir makes a directory with those above it, durably.
func makeDir(dir string) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	var parents []string // of what is missing, the innermost first
	for at := abs; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err == nil && at == abs && !info.IsDir() {
			return fmt.Errorf("%w: %s is not a directory", ErrInvalid, dir)
		}
		if err == nil || at == filepath.Dir(at) {
			break
		}
		parents = append(parents, filepath.Dir(at))
	}
	if err := os.MkdirAll(abs, 0o770); err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	for _, p := range parents {
		if err := (disk{}).SyncDir(p); err != nil {
			return fmt.Errorf("archive: %w", err)
		}
	}
	return nil
}
