package wal

import (
	"bytes"
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

const (
	segmentMagic = "nornwal1"
	recordMagic  = "nRec"

	headSize       = 48 // of a segment
	recordHeadSize = 40
	sector         = 512

	// MaxRecord is the longest body of a record, in bytes.
	MaxRecord = 1 << 30
)

// head is the beginning of a segment.
type head struct {
	series   uint64
	sequence uint64
	first    uint64 // number of its first record
	before   uint64 // sum of the record before it
}

func (h head) append(b []byte) []byte {
	at := len(b)
	b = append(b, segmentMagic...)
	for _, v := range []uint64{h.series, h.sequence, h.first, h.before} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return binary.BigEndian.AppendUint64(b, xxhash.Sum64(b[at:]))
}

// headOf reads the head of a segment; false: it is none, or damaged.
func headOf(b []byte) (h head, ok bool) {
	if len(b) < headSize || string(b[:8]) != segmentMagic || binary.BigEndian.Uint64(b[40:]) != xxhash.Sum64(b[:40]) {
		return head{}, false
	}
	u := func(at int) uint64 { return binary.BigEndian.Uint64(b[at:]) }
	return head{u(8), u(16), u(24), u(32)}, true
}

// record is one of them as it lies in a segment.
type record struct {
	number uint64
	before uint64 // sum of the record before it
	sum    uint64
	body   []byte
}

// appendRecord appends a record and returns its sum, too.
func appendRecord(b []byte, series, number, before uint64, body ...[]byte) ([]byte, uint64) {
	at, size := len(b), 0
	for _, part := range body {
		size += len(part)
	}
	b = append(b, recordMagic...)
	b = binary.BigEndian.AppendUint32(b, uint32(size))
	for _, v := range []uint64{series, number, before, 0} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	for _, part := range body {
		b = append(b, part...)
	}
	sum := sumOf(b[at:])
	binary.BigEndian.PutUint64(b[at+32:], sum)
	return b, sum
}

func sumOf(b []byte) uint64 {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.Write(b[:32])             // never an error
	_, _ = d.Write(b[recordHeadSize:]) // likewise
	return d.Sum64()
}

// recordAt reads the record at an offset of a segment; false: there is no intact one of this
// series.
func recordAt(segment []byte, at int64, series uint64) (r record, end int64, ok bool) {
	if at < 0 || at+recordHeadSize > int64(len(segment)) {
		return record{}, 0, false
	}
	b := segment[at:]
	size := int64(binary.BigEndian.Uint32(b[4:]))
	if !bytes.Equal(b[:4], []byte(recordMagic)) || binary.BigEndian.Uint64(b[8:]) != series || size > int64(len(b))-recordHeadSize {
		return record{}, 0, false
	}
	b = b[:recordHeadSize+size]
	r = record{binary.BigEndian.Uint64(b[16:]), binary.BigEndian.Uint64(b[24:]), binary.BigEndian.Uint64(b[32:]), b[recordHeadSize:]}
	return r, at + int64(len(b)), sumOf(b) == r.sum
}

// next is where the record after one that ends here begins.
func next(end int64) int64 { return (end + sector - 1) / sector * sector }
