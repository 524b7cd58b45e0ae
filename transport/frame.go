package transport

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"time"
)

// Flags of a frame, in the upper bits of its method word.
const (
	// FlagResponse marks a reply; requests never carry it.
	FlagResponse uint16 = 0x8000
	// FlagError marks a reply whose body is an error.
	FlagError uint16 = 0x4000
	// FlagMore is reserved for streams and refused today.
	FlagMore uint16 = 0x2000
	// FlagCancel asks to give up the open request with this id. It has no
	// body and no reply of its own: the cancelled request still gets one.
	FlagCancel uint16 = 0x1000
	// FlagDeadline says that a u32 of remaining milliseconds precedes the body.
	FlagDeadline uint16 = 0x0800

	// MethodMask selects the method, a number from 0 to 1023.
	MethodMask uint16 = 0x03ff

	flagReserved uint16 = 0x0400
)

const (
	lengthBytes   = 4
	headBytes     = 10 // request id and method word, counted by length
	deadlineBytes = 4
	prefixBytes   = lengthBytes + headBytes
	sumBytes      = 8 // CRCs of body and head, of frames with sums
	sumsPrefix    = prefixBytes + sumBytes
)

// castagnoli is the polynomial of the sums: processors compute it.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// DefaultMaxFrame bounds the length field of a frame, in bytes: the largest
// configurable payload and its envelope.
const DefaultMaxFrame = 17 << 20

// Frame is one frame in memory.
type Frame struct {
	Request  uint64
	Method   uint16        // 0 to 1023
	Flags    uint16        // the Flag constants
	Deadline time.Duration // time left when it was sent, 0: none
	Body     []byte        // may alias a buffer; see who hands the frame out
}

// Body is what a frame carries, encoded as late as possible.
type Body interface {
	// Size is the number of bytes AppendTo will add, or an upper estimate:
	// limits and buffers go by it. It must be cheap.
	Size() int
	// AppendTo appends the encoding to dst.
	AppendTo(dst []byte) ([]byte, error)
}

// Droppable is a Body that wants to know when it surely never reached a write
// call, or that an error went in its place. Dropped is called at most once, on a
// goroutine of the connection or that of the caller, before [Handler.Closed].
type Droppable interface {
	Dropped()
}

// Bytes is a Body that is encoded already.
type Bytes []byte

// Size is the number of bytes.
func (b Bytes) Size() int { return len(b) }

// AppendTo appends the bytes; it never fails.
func (b Bytes) AppendTo(dst []byte) ([]byte, error) { return append(dst, b...), nil }

// AppendFrame appends the encoding of f to dst. FlagDeadline is set exactly
// when f has a deadline.
func AppendFrame(dst []byte, f Frame) []byte { return appendWhole(dst, f, false) }

// AppendSummed appends f as a [Link] sends it: with sums.
func AppendSummed(dst []byte, f Frame) []byte { return appendWhole(dst, f, true) }

func appendWhole(dst []byte, f Frame, sums bool) []byte {
	ms := deadlineMillis(f.Deadline)
	start := len(dst)
	dst = appendPrefix(dst, f.Request, f.Method&MethodMask|f.Flags&^MethodMask&^FlagDeadline, ms, sums)
	dst = append(dst, f.Body...)
	seal(dst, start, sums)
	return dst
}

// ParseFrame decodes the frame at the beginning of b; maxFrame bounds its
// length field. n is the number of bytes it takes, 0 when b holds only a part
// of it. The body aliases b. Errors are [ErrMalformed] and [ErrFrameTooLarge];
// with the latter f has the request and the method of what is refused.
func ParseFrame(b []byte, maxFrame int) (f Frame, n int, err error) {
	return parseFrame(b, maxFrame, false)
}

// ParseSummed is the same for a frame with sums. Where these do not fit the error
// is [ErrDamaged], and no more can be read: where the next frame begins is unknown.
// That the head fits is seen before what it says of a length is believed.
func ParseSummed(b []byte, maxFrame int) (f Frame, n int, err error) {
	return parseFrame(b, maxFrame, true)
}

func parseFrame(b []byte, maxFrame int, sums bool) (f Frame, n int, err error) {
	prefix := prefixBytes
	if sums {
		prefix = sumsPrefix
		if len(b) < prefix {
			return Frame{}, 0, nil
		}
		if at := prefix - 4; crc32.Checksum(b[:at], castagnoli) != binary.BigEndian.Uint32(b[at:]) {
			return Frame{}, 0, fmt.Errorf("%w: its head does not fit its CRC", ErrDamaged)
		}
	}
	if len(b) < lengthBytes {
		return Frame{}, 0, nil
	}
	length := uint64(binary.BigEndian.Uint32(b))
	if least := uint64(prefix - lengthBytes); length < least {
		return Frame{}, 0, fmt.Errorf("%w: length %d is under %d", ErrMalformed, length, least)
	}
	if len(b) < prefix {
		return Frame{}, 0, nil
	}
	word := binary.BigEndian.Uint16(b[12:])
	f.Request = binary.BigEndian.Uint64(b[4:])
	f.Method = word & MethodMask
	f.Flags = word &^ MethodMask
	if length > uint64(maxFrame) {
		return f, 0, fmt.Errorf("%w: %d bytes, the limit is %d", ErrFrameTooLarge, length, maxFrame)
	}
	if err := checkFlags(f.Flags, length-uint64(prefix-prefixBytes)); err != nil {
		return f, 0, err
	}
	if uint64(len(b)-lengthBytes) < length {
		return Frame{}, 0, nil
	}
	n = lengthBytes + int(length)
	f.Body = b[prefix:n:n]
	if sums && crc32.Checksum(f.Body, castagnoli) != binary.BigEndian.Uint32(b[prefixBytes:]) {
		return Frame{}, 0, fmt.Errorf("%w: a body of %d bytes does not fit its CRC", ErrDamaged, len(f.Body))
	}
	if f.Flags&FlagDeadline != 0 {
		// No time left is not the same as no deadline.
		f.Deadline = max(time.Duration(binary.BigEndian.Uint32(f.Body))*time.Millisecond, time.Nanosecond)
		f.Body = f.Body[deadlineBytes:]
	}
	return f, n, nil
}

func checkFlags(flags uint16, length uint64) error {
	switch {
	case flags&flagReserved != 0:
		return fmt.Errorf("%w: reserved bit 0x%04x is set", ErrMalformed, flagReserved)
	case flags&FlagMore != 0:
		return fmt.Errorf("%w: streams are not part of this version", ErrMalformed)
	case flags&FlagDeadline != 0 && length < headBytes+deadlineBytes:
		return fmt.Errorf("%w: deadline flag without a deadline", ErrMalformed)
	case flags&FlagCancel != 0 && (length != headBytes || flags != FlagCancel):
		return fmt.Errorf("%w: a cancel has no body and no other flag", ErrMalformed)
	case flags&FlagError != 0 && flags&FlagResponse == 0:
		return fmt.Errorf("%w: a request cannot be an error", ErrMalformed)
	}
	return nil
}

// appendPrefix appends everything before the body, with length and sums 0. ms 0
// means no deadline.
func appendPrefix(dst []byte, request uint64, word uint16, ms uint32, sums bool) []byte {
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint64(dst, request)
	if ms != 0 {
		word |= FlagDeadline
	}
	dst = binary.BigEndian.AppendUint16(dst, word)
	if sums {
		dst = append(dst, make([]byte, sumBytes)...)
	}
	if ms != 0 {
		dst = binary.BigEndian.AppendUint32(dst, ms)
	}
	return dst
}

// seal writes the length of the frame that begins at start and ends with dst, and
// its sums.
func seal(dst []byte, start int, sums bool) {
	b := dst[start:]
	binary.BigEndian.PutUint32(b, uint32(len(b)-lengthBytes))
	if sums {
		binary.BigEndian.PutUint32(b[prefixBytes:], crc32.Checksum(b[sumsPrefix:], castagnoli))
		at := sumsPrefix - 4
		binary.BigEndian.PutUint32(b[at:], crc32.Checksum(b[:at], castagnoli))
	}
}

// deadlineMillis rounds up, so that what has time left never says it has none.
func deadlineMillis(d time.Duration) uint32 {
	if d <= 0 {
		return 0
	}
	ms := (d + time.Millisecond - 1) / time.Millisecond
	return uint32(min(ms, math.MaxUint32))
}
