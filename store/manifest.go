package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The manifest is a log of edits: which tables make up the store, and from which log
// on it is to be replayed. Pebble takes a record that it cannot read for the end, as
// a power failure leaves it, forgets the edits from there on, and deletes the tables
// that only those name. But each edit is synced before the next one is written: only
// the last one can be torn, and then some of it is not in the file, or zero.
const (
	manifestBlock  = 32 << 10
	manifestHeader = 7 // checksum, length, kind
	recordFull     = 1
	recordFirst    = 2
	recordLast     = 4
	// sector is what a disk writes whole, or not at all.
	sector = 512
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// chunkSize is the length that a chunk of a record has by its header, which is included.
func chunkSize(b []byte) int { return manifestHeader + int(binary.LittleEndian.Uint16(b[4:])) }

// chunk gives the length of the chunk that b begins with, and whether a record begins
// with it; 0 when it is none.
func chunk(b []byte) (size int, begins bool) {
	if len(b) < manifestHeader {
		return 0, false
	}
	kind, size := b[6], chunkSize(b)
	if kind < recordFull || kind > recordLast || size > len(b) {
		return 0, false
	}
	sum := crc32.Checksum(b[6:size], castagnoli)
	if binary.LittleEndian.Uint32(b) != (sum>>15|sum<<17)+0xa282ead8 {
		return 0, false
	}
	return size, kind == recordFull || kind == recordFirst
}

// torn tells whether a power failure may have left the end of a manifest, from a chunk
// at an offset on that cannot be read.
func torn(b []byte, at int64) bool {
	if len(b) < manifestHeader {
		return true
	}
	if size := chunkSize(b); size > len(b) && at%manifestBlock+int64(size) <= manifestBlock {
		return true
	}
	for end := 0; end < len(b); {
		begin := end
		end = min(begin+sector-int(at+int64(begin))%sector, len(b))
		if len(bytes.Trim(b[begin:end], "\x00")) == 0 {
			return true
		}
	}
	return false
}

// checkManifest returns ErrDamaged when a manifest cannot be read to its end, for
// another reason than a power failure.
func checkManifest(files vfs.FS, name string) error {
	f, err := files.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	bad, rest := int64(-1), []byte(nil)
	b := make([]byte, manifestBlock)
	for at := int64(0); ; at += manifestBlock {
		n, err := io.ReadFull(f, b)
		for i := 0; i < n; {
			size, begins := chunk(b[i:n])
			switch {
			case size > 0 && begins && bad >= 0:
				return fmt.Errorf("%w: %s: the record at %d is damaged, and there are others behind it", ErrDamaged, name, bad)
			case size > 0 && bad < 0:
				i += size
			case bad < 0 && n-i < manifestHeader && n == manifestBlock:
				i = n // what no header fits into is left free
			default:
				if bad < 0 {
					bad = at + int64(i)
				}
				rest = append(rest, b[i])
				i++ // where the next one begins cannot be told
			}
		}
		switch {
		case err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
			return err
		case err != nil && bad >= 0 && !torn(rest, bad):
			return fmt.Errorf("%w: %s: the record at %d is damaged", ErrDamaged, name, bad)
		case err != nil:
			return nil
		}
	}
}
