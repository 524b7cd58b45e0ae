package store

import (
	"errors"
	"reflect"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// tableBuffer is how much of a table is written to its file at once, in bytes.
	tableBuffer = 512 << 10
	// alignment is what places, lengths and memory of a direct write are multiples
	// of, in bytes: no disk has larger blocks.
	alignment = 4096
)

// tableFile is the file of a table. It is written in large pieces, past the page
// cache where the file system can do that: what fills a replica is not read again
// soon, and to copy it there and write it from there takes several times as much
// processor time.
type tableFile struct {
	file   vfs.File
	buffer []byte // aligned
	direct bool
}

// aligned gives memory for direct writes.
func aligned(size int) []byte {
	b := make([]byte, size+alignment)
	if over := int(reflect.ValueOf(b).Pointer() % alignment); over > 0 {
		b = b[alignment-over:]
	}
	return b[:0:size]
}

// Write takes some bytes of the file.
func (f *tableFile) Write(b []byte) error {
	for len(b) > 0 {
		n := min(len(b), cap(f.buffer)-len(f.buffer))
		f.buffer, b = append(f.buffer, b[:n]...), b[n:]
		if len(f.buffer) == cap(f.buffer) {
			if err := f.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *tableFile) flush() error {
	_, err := f.file.Write(f.buffer)
	if f.direct && errors.Is(err, syscall.EINVAL) { // it cannot, though it said so
		f.usual()
		_, err = f.file.Write(f.buffer)
	}
	f.buffer = f.buffer[:0]
	return err
}

func (f *tableFile) usual() {
	f.direct = false
	setDirect(f.file, false)
}

// Finish makes the file durable and closes it. Its end is written the usual way,
// because it is no whole block.
func (f *tableFile) Finish() error {
	if f.direct {
		f.usual()
	}
	err := f.flush()
	if err == nil {
		err = f.file.Sync()
	}
	return errors.Join(err, f.file.Close())
}

// Abort closes the file as it is.
func (f *tableFile) Abort() { _ = f.file.Close() }
