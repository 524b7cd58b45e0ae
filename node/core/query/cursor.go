package query

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/norn-dev/norn/proto"
)

// Cursor says of what a page is that a cursor ends.
type Cursor byte

// Kinds of cursors.
const (
	TaskCursor   Cursor = 't'
	QueueCursor  Cursor = 'q'
	WorkerCursor Cursor = 'w'
	BulkCursor   Cursor = 'b'
)

// cursorSum is what ends a cursor, in bytes: the CRC32C of its kind and of where the page
// has ended. What no node has given is refused, and not taken for some place.
const cursorSum = 4

// Seal makes a cursor of where a page has ended; nil of nothing.
func (k Cursor) Seal(at []byte) []byte {
	if len(at) == 0 {
		return nil
	}
	return binary.BigEndian.AppendUint32(append([]byte(nil), at...), k.sum(at))
}

// Open gives where a page has ended; nil for no cursor.
func (k Cursor) Open(cursor []byte) ([]byte, *proto.Error) {
	if len(cursor) == 0 {
		return nil, nil
	}
	at := len(cursor) - cursorSum
	if at <= 0 || binary.BigEndian.Uint32(cursor[at:]) != k.sum(cursor[:at]) {
		return nil, proto.Invalid("the cursor is none that a node has given for such a list; leave it out to begin, then send next_cursor of the page before")
	}
	return cursor[:at], nil
}

func (k Cursor) sum(at []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum([]byte{byte(k)}, table), table, at)
}
