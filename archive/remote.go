package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/norn-dev/norn/internal/objects"
)

// remoteTime bounds one call to a store that is not a directory, listTime a list,
// which is a call for each thousand objects.
const (
	remoteTime = 30 * time.Second
	listTime   = 10 * time.Minute
)

// at gives the file system behind an address of package objects,
// and what the paths of its files begin with.
func at(address string) (fileSystem, string, error) {
	path, is, err := objects.Directory(address)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if is {
		return disk{}, path, nil
	}
	s, err := objects.Open(address)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return remote{store: s, until: context.Background()}, "", nil
}

// remote is a store of objects as a file system. A file is there once it was
// synced, whole; what a store has acknowledged needs no syncing of directories.
type remote struct {
	store objects.Store
	until context.Context // ends what is under way
}

// during gives a file system that gives up when ctx ends, where it may have to wait
// for others.
func during(ctx context.Context, fs fileSystem) fileSystem {
	if r, ok := fs.(remote); ok {
		r.until = ctx
		return r
	}
	return fs
}

func (r remote) call(limit time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(r.until, limit)
	defer cancel()
	return do(ctx)
}

// remoteFile collects what is written; its store gets it with Sync.
type remoteFile struct {
	bytes.Buffer
	r    remote
	name string
	sent bool
}

func (f *remoteFile) Sync() error {
	if f.sent {
		return errors.New("archive: a file in a store is written once")
	}
	f.sent = true
	return f.r.call(remoteTime, func(ctx context.Context) error { return f.r.store.Create(ctx, f.name, f.Bytes()) })
}

func (f *remoteFile) Close() error { return nil }

func (r remote) Create(name string) (file, error) {
	base := filepath.Base(name)
	there, err := r.List("", base)
	if err == nil && len(there) > 0 {
		err = &os.PathError{Op: "create", Path: base, Err: fs.ErrExist}
	}
	if err != nil {
		return nil, err
	}
	return &remoteFile{r: r, name: base}, nil
}

func (r remote) Open(name string) (io.ReadCloser, error) {
	b, err := r.get(filepath.Base(name))
	if err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

func (r remote) get(name string) (b []byte, err error) {
	err = r.call(remoteTime, func(ctx context.Context) error {
		b, err = r.store.Get(ctx, name)
		return err
	})
	return b, err
}

// Rename copies and deletes: nobody sees a half of it, and both names for a
// moment, which sweep knows.
func (r remote) Rename(from, to string) error {
	b, err := r.get(filepath.Base(from))
	if err != nil {
		return err
	}
	if err := r.call(remoteTime, func(ctx context.Context) error { return r.store.Put(ctx, filepath.Base(to), b) }); err != nil {
		return err
	}
	return r.Remove(from)
}

func (r remote) Remove(name string) error {
	return r.call(remoteTime, func(ctx context.Context) error { return r.store.Delete(ctx, filepath.Base(name)) })
}

func (r remote) List(_, begin string) (names []string, err error) {
	err = r.call(listTime, func(ctx context.Context) error {
		all, err := r.store.List(ctx, begin)
		for _, o := range all {
			names = append(names, o.Name)
		}
		return err
	})
	return names, err
}

func (remote) SyncDir(string) error { return nil }
