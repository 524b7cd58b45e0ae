package memdisk

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"

	"github.com/norn-dev/norn/wal"
)

const sector = 512

// Disk is a directory in memory. It is used from one goroutine. Make one with [New].
type Disk struct {
	files map[string]*file
	// Room is how many bytes the segments may have; 0: without a limit.
	Room int64
	// Fails is asked before each write ("write") and sync ("sync"); its error is that call's.
	Fails func(what string) error
}

// New makes an empty disk.
func New() *Disk { return &Disk{files: make(map[string]*file)} }

type file struct {
	disk    *Disk
	data    []byte           // as it is read
	durable map[int64][]byte // sectors as of the last sync that were written since
}

// List gives the names of the segments.
func (d *Disk) List() ([]string, error) { return slices.Sorted(maps.Keys(d.files)), nil }

// Open opens a segment.
func (d *Disk) Open(name string) (wal.File, error) {
	f, ok := d.files[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return f, nil
}

// Create makes a segment of zeros.
func (d *Disk) Create(name string, size int64) (wal.File, error) {
	total := size
	for _, f := range d.files {
		total += int64(len(f.data))
	}
	if d.Room > 0 && total > d.Room {
		return nil, fmt.Errorf("%w: %d bytes of %d", wal.ErrFull, total, d.Room)
	}
	f := &file{d, make([]byte, size), make(map[int64][]byte)}
	d.files[name] = f
	return f, nil
}

// Remove deletes a segment.
func (d *Disk) Remove(name string) error {
	delete(d.files, name)
	return nil
}

// Crash gives the disk as it is after a power failure. Each sector that was written and not
// synced is asked about, in order: true keeps what was written.
func (d *Disk) Crash(keep func() bool) *Disk {
	after := New()
	for _, name := range slices.Sorted(maps.Keys(d.files)) {
		f := d.files[name]
		n := &file{after, slices.Clone(f.data), make(map[int64][]byte)}
		for _, at := range slices.Sorted(maps.Keys(f.durable)) {
			if !keep() {
				copy(n.data[at:], f.durable[at])
			}
		}
		after.files[name] = n
	}
	return after
}

// Bytes gives the contents of a segment, for whoever damages them.
func (d *Disk) Bytes(name string) []byte { return d.files[name].data }

// Size is the number of bytes.
func (f *file) Size() (int64, error) { return int64(len(f.data)), nil }

// ReadAt reads what was written, synced or not.
func (f *file) ReadAt(b []byte, at int64) (int, error) {
	n := copy(b, f.data[min(at, int64(len(f.data))):])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt writes within the segment; what it covers is lost or not with the power until Sync.
func (f *file) WriteAt(b []byte, at int64) (int, error) {
	if at+int64(len(b)) > int64(len(f.data)) {
		return 0, fmt.Errorf("memdisk: a write to %d in a segment of %d bytes", at+int64(len(b)), len(f.data))
	}
	if err := f.disk.fails("write"); err != nil {
		return 0, err
	}
	for s := at / sector * sector; s < at+int64(len(b)); s += sector {
		if _, known := f.durable[s]; !known {
			f.durable[s] = slices.Clone(f.data[s:min(s+sector, int64(len(f.data)))])
		}
	}
	return copy(f.data[at:], b), nil
}

// Sync makes durable what was written.
func (f *file) Sync() error {
	if err := f.disk.fails("sync"); err != nil {
		return err
	}
	clear(f.durable)
	return nil
}

// Close does nothing.
func (f *file) Close() error { return nil }

func (d *Disk) fails(what string) error {
	if d.Fails == nil {
		return nil
	}
	return d.Fails(what)
}
