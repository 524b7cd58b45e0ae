package record

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/vnode/tally"
)

// ErrDamaged is returned when stored bytes cannot be read. The node stops:
// damaged is not the same as absent.
var ErrDamaged = errors.New("vnode: damaged record")

const (
	queueVersion = 1
	sizeVersion  = 1
)

// AppendQueue appends the stored form of a queue's counters and the
// low-water rank of its ready index.
func AppendQueue(dst []byte, c *tally.Counts, low claim.Rank, hasLow bool) []byte {
	dst = append(dst, queueVersion)
	for _, n := range c[1:] {
		dst = binary.AppendUvarint(dst, n)
	}
	if hasLow {
		dst = append(dst, low[:]...)
	}
	return dst
}

// Queue reads what [AppendQueue] wrote.
func Queue(b []byte) (c tally.Counts, low claim.Rank, hasLow bool, err error) {
	if len(b) == 0 || b[0] != queueVersion {
		return c, low, false, fmt.Errorf("%w: queue record", ErrDamaged)
	}
	b = b[1:]
	for i := range c[1:] {
		n, size := binary.Uvarint(b)
		if size <= 0 {
			return c, low, false, fmt.Errorf("%w: queue counters", ErrDamaged)
		}
		c[i+1], b = n, b[size:]
	}
	switch len(b) {
	case 0:
	case claim.RankSize:
		low, hasLow = claim.Rank(b), true
	default:
		return c, low, false, fmt.Errorf("%w: low-water rank", ErrDamaged)
	}
	return c, low, hasLow, nil
}

// AppendSize appends the stored form of how many bytes the tasks of a queue hold, with the counters that it has
// then.
func AppendSize(dst []byte, bytes uint64, c *tally.Counts) []byte {
	dst = binary.AppendUvarint(append(dst, sizeVersion), bytes)
	for _, n := range c[1:] {
		dst = binary.AppendUvarint(dst, n)
	}
	return dst
}

// Size reads what [AppendSize] wrote of these counters. Where it was not, a build has changed the queue that does
// not count bytes: nothing of it is known, false.
func Size(b []byte, c *tally.Counts) (bytes uint64, ok bool) {
	if len(b) == 0 || b[0] != sizeVersion {
		return 0, false
	}
	b = b[1:]
	for i := range c {
		n, size := binary.Uvarint(b)
		if size <= 0 || i > 0 && n != c[i] {
			return 0, false
		}
		if b = b[size:]; i == 0 {
			bytes = n
		}
	}
	return bytes, len(b) == 0
}

// SizeUnder is [Size] of what is stored under a key; 0 where nothing is known.
func SizeUnder(get func(key []byte) ([]byte, bool), key []byte, c *tally.Counts) uint64 {
	b, _ := get(key)
	n, _ := Size(b, c)
	return n
}
