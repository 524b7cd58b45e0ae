package core

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/norn-dev/norn/proto"
)

// cursorKind says what a page is of.
type cursorKind byte

// Kinds of cursors.
const (
	taskCursor   cursorKind = 't'
	queueCursor  cursorKind = 'q'
	workerCursor cursorKind = 'w'
	bulkCursor   cursorKind = 'b'
)

// cursorSum is what ends a cursor, in bytes: the CRC32C of its kind and of where the page
// has ended. What no node has given is refused, and not taken for some place.
const cursorSum = 4

// seal makes a cursor of where a page has ended; nil of nothing.
func (k cursorKind) seal(at []byte) []byte {
	if len(at) == 0 {
		return nil
	}
	return binary.BigEndian.AppendUint32(append([]byte(nil), at...), k.sum(at))
}

// open gives where a page has ended; nil for no cursor.
func (k cursorKind) open(cursor []byte) ([]byte, *proto.Error) {
	if len(cursor) == 0 {
		return nil, nil
	}
	at := len(cursor) - cursorSum
	if at <= 0 || binary.BigEndian.Uint32(cursor[at:]) != k.sum(cursor[:at]) {
		return nil, proto.Invalid("the cursor is none that a node has given for such a list; leave it out to begin, then send next_cursor of the page before")
	}
	return cursor[:at], nil
}

func (k cursorKind) sum(at []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum([]byte{byte(k)}, table), table, at)
}
