package objects

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

// directory is a store in a directory.
type directory struct {
	path   string
	calls  Calls
	looked atomic.Int64 // when it was last looked for what crashes have left, s since 1970
}

var _ Store = (*directory)(nil)

func newDirectory(path string) *directory { return &directory{path: filepath.Clean(path)} }

// until makes a call, and names the place when that does not answer.
func (d *directory) until(ctx context.Context, call func() error) error {
	err := d.calls.Until(ctx, call)
	if errors.Is(err, ErrNoAnswer) {
		return fmt.Errorf("objects: %s: %w", d.path, err)
	}
	return err
}

// Files that are being written are hidden by a dot, and have this end.
const partial = ".part"

// oldPartial is when a file that is being written is what a crash has left.
const oldPartial = 24 * time.Hour

// lookEvery is how many seconds are between two looks for such files.
const lookEvery = 60

// failed names the place, and ErrNotFound where it is that.
func (d *directory) failed(what, name string, err error) error {
	if err == nil {
		return nil
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	where := filepath.Join(d.path, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s", ErrNotFound, where)
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%w: %s", ErrExists, where)
	}
	return fmt.Errorf("objects: %s %s: %w", what, where, err)
}

// Put writes beside the object and renames.
func (d *directory) Put(ctx context.Context, name string, data []byte) error {
	return d.until(ctx, func() error { return d.put(ctx, name, data) })
}

// partName is the file that an object is written to before it has its name. Two may write one
// object at once.
var partName = func(name string) string { return "." + name + "-" + rand.Text()[:8] + partial }

func (d *directory) put(ctx context.Context, name string, data []byte) error {
	if err := d.prepare(ctx, name, data); err != nil {
		return err
	}
	part := filepath.Join(d.path, partName(name))
	err := writeFile(part, os.O_TRUNC, data)
	if err == nil {
		err = os.Rename(part, filepath.Join(d.path, name))
	}
	if err != nil {
		_ = os.Remove(part)
		return d.failed("write", name, err)
	}
	return d.failed("write", name, syncDirectory(d.path))
}

// Create makes the file or fails. A crash can leave one that is cut short: what is
// created is small, and that it is there is what counts.
func (d *directory) Create(ctx context.Context, name string, data []byte) error {
	return d.until(ctx, func() error { return d.create(ctx, name, data) })
}

func (d *directory) create(ctx context.Context, name string, data []byte) error {
	if err := d.prepare(ctx, name, data); err != nil {
		return err
	}
	path := filepath.Join(d.path, name)
	if err := writeFile(path, os.O_EXCL, data); err != nil {
		if !errors.Is(err, fs.ErrExist) {
			_ = os.Remove(path)
		}
		return d.failed("create", name, err)
	}
	return d.failed("create", name, syncDirectory(d.path))
}

// prepare checks a write, and makes the directory.
func (d *directory) prepare(ctx context.Context, name string, data []byte) error {
	if err := checkName(name); err != nil {
		return err
	}
	if err := checkSize(name, int64(len(data))); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := os.MkdirAll(d.path, 0o770); err != nil {
		return d.failed("make", "", err)
	}
	now := time.Now().Unix()
	if last := d.looked.Load(); now-last < lookEvery || !d.looked.CompareAndSwap(last, now) {
		return nil
	}
	all, err := os.ReadDir(d.path)
	if err != nil {
		return d.failed("read", "", err)
	}
	for _, e := range all {
		if !strings.HasPrefix(e.Name(), ".") || !strings.HasSuffix(e.Name(), partial) {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > oldPartial {
			_ = os.Remove(filepath.Join(d.path, e.Name()))
		}
	}
	return nil
}

// Get reads the file.
func (d *directory) Get(ctx context.Context, name string) ([]byte, error) {
	return got(ctx, d, func() ([]byte, error) { return d.get(ctx, name) })
}

// got is until of a call that gives something.
func got[T any](ctx context.Context, d *directory, call func() (T, error)) (T, error) {
	var answer, none T
	err := d.until(ctx, func() (err error) {
		answer, err = call()
		return err
	})
	if errors.Is(err, ErrNoAnswer) {
		return none, err // the answer may be written any time
	}
	return answer, err
}

func (d *directory) get(ctx context.Context, name string) ([]byte, error) {
	if err := errors.Join(checkName(name), ctx.Err()); err != nil {
		return nil, err
	}
	path := filepath.Join(d.path, name)
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file") // a pipe would be waited for
	}
	if err != nil {
		return nil, d.failed("read", name, err)
	}
	if err := checkSize(name, info.Size()); err != nil {
		return nil, err
	}
	b, err := os.ReadFile(path)
	return b, d.failed("read", name, err)
}

// List reads the directory.
func (d *directory) List(ctx context.Context, prefix string) ([]Info, error) {
	return got(ctx, d, func() ([]Info, error) { return d.list(ctx, prefix) })
}

func (d *directory) list(ctx context.Context, prefix string) ([]Info, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, d.failed("read", "", err)
	}
	var all []Info
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) || !e.Type().IsRegular() || checkName(e.Name()) != nil {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, d.failed("read", e.Name(), err)
		}
		all = append(all, Info{Name: e.Name(), Size: info.Size(), Modified: info.ModTime()})
	}
	return sortInfos(all), nil
}

// Delete removes the file.
func (d *directory) Delete(ctx context.Context, name string) error {
	return d.until(ctx, func() error { return d.remove(ctx, name) })
}

func (d *directory) remove(ctx context.Context, name string) error {
	if err := errors.Join(checkName(name), ctx.Err()); err != nil {
		return err
	}
	err := os.Remove(filepath.Join(d.path, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = syncDirectory(d.path)
	}
	return d.failed("delete", name, err)
}

// Close has nothing to free.
func (*directory) Close() error { return nil }

// writeFile writes a file durably. What is in it may be secret: the group may
// read it, the world may not.
func writeFile(path string, flag int, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|flag, 0o660)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

func syncDirectory(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
