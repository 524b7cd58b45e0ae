package objects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

var (
	// ErrNotFound is returned when there is no object of a name, or no such
	// directory or bucket.
	ErrNotFound = errors.New("objects: not found")
	// ErrExists is returned by Create when there is an object of the name already.
	ErrExists = errors.New("objects: exists already")
	// ErrTooLarge is returned when an object is over MaxObject.
	ErrTooLarge = errors.New("objects: too large")
	// ErrAddress is returned when an address or a name cannot be one.
	ErrAddress = errors.New("objects: not an address")
)

// MaxObject bounds one object in bytes: it is held in memory whole. The largest
// archive of a node is smaller (archive.MaxBytes is before compression).
const MaxObject = 512 << 20

// maxName bounds a name in bytes, so that every file system takes it.
const maxName = 250

// Info is what a list says of an object.
type Info struct {
	Name     string
	Size     int64 // bytes
	Modified time.Time
}

// Store is a place for objects. Any number of goroutines may use it. Errors are
// those of this package where they say so, else of the file system or of the
// network; they name the place.
type Store interface {
	// Put writes an object, in place of one of the same name.
	Put(ctx context.Context, name string, data []byte) error
	// Create writes an object if there is none of the name, or returns ErrExists.
	Create(ctx context.Context, name string, data []byte) error
	// Get reads an object, or returns ErrNotFound.
	Get(ctx context.Context, name string) ([]byte, error)
	// List gives the objects whose names begin so, by name. A place where nothing
	// was ever written has none.
	List(ctx context.Context, prefix string) ([]Info, error)
	// Delete removes an object; that there is none is no error.
	Delete(ctx context.Context, name string) error
	// Close frees idle connections.
	Close() error
}

// Open gives the store at an address, and does not look whether it is there:
//
//	DIR, file:///DIR                a directory, made when something is written
//	s3://BUCKET[/PREFIX][?…]        a bucket, which must exist
//
// with, for S3, endpoint=URL (default AWS), region=NAME (default: the bucket's)
// and path-style=true (the bucket in the path, not in the host name; what an IP
// address gets anyway). It returns ErrAddress when it is none of these.
func Open(address string) (Store, error) {
	if path, is, err := Directory(address); is || err != nil {
		if err != nil {
			return nil, err
		}
		return newDirectory(path), nil
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAddress, err)
	}
	return newBucket(u)
}

// Directory gives the path of an address that is a directory of this machine. It returns
// ErrAddress when it is none of those that [Open] takes.
func Directory(address string) (path string, is bool, err error) {
	scheme, _, found := strings.Cut(address, "://")
	switch {
	case address == "":
		return "", false, fmt.Errorf("%w: it is empty", ErrAddress)
	case !found:
		return address, true, nil
	case scheme == "s3":
		return "", false, nil
	case scheme != "file":
		return "", false, fmt.Errorf("%w: %q; it is a directory, or s3://BUCKET/PREFIX", ErrAddress, address)
	}
	u, err := url.Parse(address)
	if err != nil {
		return "", false, fmt.Errorf("%w: %w", ErrAddress, err)
	}
	if u.Host != "" || u.Path == "" || u.RawQuery != "" {
		return "", false, fmt.Errorf("%w: %q; a directory is file:///DIR, with three slashes", ErrAddress, address)
	}
	return filepath.FromSlash(u.Path), true, nil
}

// Remote tells whether an address is not a directory of this machine.
func Remote(address string) bool { return strings.HasPrefix(address, "s3://") }

func checkName(name string) error {
	good := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-' || r == '%' || r == '~'
	}
	if name == "" || name[0] == '.' || len(name) > maxName || strings.ContainsFunc(name, func(r rune) bool { return !good(r) }) {
		return fmt.Errorf("%w: name %q", ErrAddress, name)
	}
	return nil
}

func checkSize(name string, size int64) error {
	if size > MaxObject {
		return fmt.Errorf("%w: %s has %d bytes, over %d", ErrTooLarge, name, size, MaxObject)
	}
	return nil
}

func sortInfos(all []Info) []Info {
	slices.SortFunc(all, func(a, b Info) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
