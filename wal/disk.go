package wal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Disk is a directory of segments. [Dir] is that of a file system, package memdisk the twin
// of the simulator.
type Disk interface {
	// List gives the names of the segments, in any order.
	List() ([]string, error)
	// Open opens a segment.
	Open(name string) (File, error)
	// Create makes a segment of zeros, of this many bytes. It is durable, and its name too,
	// when Create returns. After an error it is not there.
	Create(name string, size int64) (File, error)
	// Remove deletes a segment. That need not be durable.
	Remove(name string) error
}

// File is a segment. It never grows.
type File interface {
	Size() (int64, error)
	ReadAt(b []byte, at int64) (int, error)
	WriteAt(b []byte, at int64) (int, error)
	// Sync returns when all that was written is durable.
	Sync() error
	Close() error
}

// ending is that of the names of segments.
const ending = ".wal"

// Dir is the directory of a file system; it is made if it is not there.
func Dir(path string) (Disk, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("wal: %w", err)
	}
	return dir(path), nil
}

type dir string

func (d dir) List() (names []string, err error) {
	entries, err := os.ReadDir(string(d))
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ending) {
			names = append(names, e.Name())
		}
	}
	return names, err //nolint:wrapcheck // it names the directory
}

func (d dir) Open(name string) (File, error) {
	f, err := os.OpenFile(filepath.Join(string(d), name), os.O_RDWR, 0)
	return file{f}, err //nolint:wrapcheck // it names the file
}

// Create writes the zeros: blocks that were only reserved cost the first sync of each a
// change of the file system's metadata.
func (d dir) Create(name string, size int64) (_ File, err error) {
	path := filepath.Join(string(d), name)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the file
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(path))
		}
	}()
	zeros := make([]byte, min(size, 1<<20))
	for at := int64(0); at < size; at += int64(len(zeros)) {
		if _, err = f.WriteAt(zeros[:min(int64(len(zeros)), size-at)], at); err != nil {
			return nil, err
		}
	}
	if err = f.Sync(); err != nil {
		return nil, err
	}
	within, err := os.Open(string(d))
	if err != nil {
		return nil, err
	}
	if err = errors.Join(within.Sync(), within.Close()); err != nil {
		return nil, err
	}
	return file{f}, nil
}

func (d dir) Remove(name string) error {
	return os.Remove(filepath.Join(string(d), name)) //nolint:wrapcheck // it names the file
}

type file struct{ *os.File }

func (f file) Size() (int64, error) {
	s, err := f.Stat()
	if err != nil {
		return 0, err //nolint:wrapcheck // it names the file
	}
	return s.Size(), nil
}

func (f file) Sync() error { return fdatasync(f.File) }

// noRoom tells whether an error is that of a disk without room.
func noRoom(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, ErrFull)
}
