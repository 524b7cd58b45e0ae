package crdt

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/internal/mutant"
)

// Fact is one immutable statement about a task.
type Fact struct {
	Task id.ID
	Key  Key
	Body []byte // canonical bytes of the kind's struct; nobody may change them
	// CRC is the CRC32C of task, key and body, made where these were first encoded. It
	// stays with them: on the way to other nodes, on their disks, and back. It is no part
	// of what the fact says. 0: none was made.
	CRC uint32
}

// NewFact is a fact with its CRC.
func NewFact(task id.ID, key Key, body []byte) Fact {
	f := Fact{Task: task, Key: key, Body: body}
	f.CRC = f.crc()
	return f
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// crc is never 0.
func (f *Fact) crc() uint32 {
	var buf [id.Size + KeySize]byte
	return max(1, crc32.Update(crcOf(f.Key.Append(append(buf[:0], f.Task[:]...))), castagnoli, f.Body))
}

// sliced are the tables of [crcOf]: of a byte that so many others follow.
var sliced = func() (t [8]crc32.Table) {
	t[0] = *castagnoli
	for i := range t[0] {
		for j := 1; j < len(t); j++ {
			t[j][i] = t[0][byte(t[j-1][i])] ^ t[j-1][i]>>8
		}
	}
	return t
}()

// crcOf is crc32.Checksum, whose arguments go to the heap: eight bytes at a time.
func crcOf(b []byte) uint32 {
	c, t := ^uint32(0), &sliced
	for ; len(b) >= 8; b = b[8:] {
		low, high := c^binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
		c = t[7][byte(low)] ^ t[6][byte(low>>8)] ^ t[5][byte(low>>16)] ^ t[4][low>>24] ^
			t[3][byte(high)] ^ t[2][byte(high>>8)] ^ t[1][byte(high>>16)] ^ t[0][high>>24]
	}
	for _, one := range b {
		c = t[0][byte(c)^one] ^ c>>8
	}
	return ^c
}

// Intact returns ErrMalformed when the fact does not fit its CRC: bits of it have
// changed since it was encoded. One without a CRC passes.
func (f *Fact) Intact() error {
	if f.CRC != 0 && f.CRC != f.crc() && !mutant.SumUnchecked.On() {
		return fmt.Errorf("%w: a fact of key %v and %d bytes does not fit its CRC", ErrMalformed, f.Key, len(f.Body))
	}
	return nil
}

// summed is the first byte of a stored fact that has a CRC. It is no version of a body, and
// more than one bit away from those that are.
const summed = 0xff

// StoredExtra is what a stored fact takes at most beside its body.
const StoredExtra = 1 + 4

// AppendStored appends the fact as it is stored under its task and key: a byte 255, the
// CRC, and the body; without a CRC the body alone.
func (f *Fact) AppendStored(dst []byte) []byte {
	if f.CRC != 0 {
		dst = binary.BigEndian.AppendUint32(append(dst, summed), f.CRC)
	}
	return append(dst, f.Body...)
}

// Stored reads what AppendStored has written, without looking at body and CRC. The fact
// shares value. ErrMalformed: it begins as nothing does that is stored.
func Stored(task id.ID, key Key, value []byte) (Fact, error) {
	f := Fact{Task: task, Key: key, Body: value}
	switch {
	case len(value) >= StoredExtra && value[0] == summed:
		f.CRC, f.Body = binary.BigEndian.Uint32(value[1:]), value[StoredExtra:]
		if f.CRC != 0 {
			return f, nil
		}
	case len(value) > 0 && value[0] == version:
		return f, nil
	}
	return f, fmt.Errorf("%w: a stored fact of key %v and %d bytes", ErrMalformed, key, len(value))
}

// Check decodes the fact and returns ErrMalformed unless it fits its CRC and its body is
// canonical and belongs under its key, and ErrUnknown when it was written by a newer
// build. What comes from others is checked before it is stored.
func (f Fact) Check() error {
	var t Task
	return t.take(f)
}

// Wins tells whether body a stays where a and b were written under one key:
// the smaller one in byte order, everywhere the same. Of two that say the same
// with different times that is the earlier one, so that a retry changes
// nothing. Equal bodies do not win over each other.
func Wins(a, b []byte) bool { return bytes.Compare(a, b) < 0 }

// content is what every fact's struct has.
type content interface {
	key() Key
	AppendTo(dst []byte) []byte
}

// decode reads a body that must belong under a key.
func decode[T content](f Fact, decoder func([]byte) (T, error)) (T, error) {
	c, err := decoder(f.Body)
	if err == nil && c.key() != f.Key {
		err = fmt.Errorf("%w: a body of key %v under key %v", ErrMalformed, c.key(), f.Key)
	}
	return c, err
}

// encode is AppendTo into one allocation: size is what the fields of variable
// length take, and the rest has at most five numbers.
func encode(c content, size int) []byte {
	return c.AppendTo(make([]byte, 0, 1+5*9+size))
}
