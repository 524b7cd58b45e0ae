package id

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/ksuid"
)

// Size is the length of an ID in bytes.
const Size = 20

// TextSize is the length of an ID as text.
const TextSize = 27

// epoch is the KSUID epoch in seconds of Unix time.
const epoch = 1_400_000_000

// ErrMalformed is returned when text or bytes are not an ID.
var ErrMalformed = errors.New("id: malformed ID")

// ID names a task. The zero ID names none.
type ID [Size]byte

// Kind says who makes an ID and what its last twelve bytes are. The numbers
// are part of every ID: append only, and there are only four.
type Kind uint8

// Kinds of IDs.
const (
	KindTask   Kind = 0 // drawn by an SDK or a node, random
	KindLaunch Kind = 1 // one occurrence of a schedule, see [Launch]
	KindKey    Kind = 2 // a unique key, see [UniqueKey]
	KindSystem Kind = 3 // Norn's own
)

// String gives the 27 characters of the KSUID text form.
func (i ID) String() string { return ksuid.KSUID(i).String() }

// AppendText appends the text form to dst. The error is always nil.
func (i ID) AppendText(dst []byte) ([]byte, error) { return ksuid.KSUID(i).Append(dst), nil }

// MarshalText gives the text form. The error is always nil.
func (i ID) MarshalText() ([]byte, error) { return i.AppendText(make([]byte, 0, TextSize)) }

// UnmarshalText is [Parse] into i, which stays as it is on ErrMalformed.
func (i *ID) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	if err == nil {
		*i = parsed
	}
	return err
}

// Parse reads the text form: exactly 27 characters of 0-9, A-Z, a-z. It
// returns ErrMalformed for anything else, and for text whose value does not
// fit into 20 bytes.
func Parse(s string) (ID, error) {
	if len(s) != TextSize {
		return ID{}, fmt.Errorf("%w: %d characters, not %d", ErrMalformed, len(s), TextSize)
	}
	for n := 0; n < len(s); n++ {
		if c := s[n]; (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return ID{}, fmt.Errorf("%w: character %q", ErrMalformed, c)
		}
	}
	parsed, err := ksuid.Parse(s) // it finds overflow, but takes any character
	if err != nil {
		return ID{}, fmt.Errorf("%w: %q: %w", ErrMalformed, s, err)
	}
	return ID(parsed), nil
}

// ParseNew is Parse for the ID of a task that is to be made. It returns
// ErrMalformed for the zero ID too: in a task that stands for none given, so the
// task would be made under another one.
func ParseNew(s string) (ID, error) {
	i, err := Parse(s)
	if err == nil && i.IsZero() {
		return ID{}, fmt.Errorf("%w: it is zero, which names nothing", ErrMalformed)
	}
	return i, err
}

// FromBytes copies the binary form: any 20 bytes. It returns ErrMalformed for
// another length.
func FromBytes(b []byte) (ID, error) {
	if len(b) != Size {
		return ID{}, fmt.Errorf("%w: %d bytes, not %d", ErrMalformed, len(b), Size)
	}
	return ID(b), nil
}

// Bytes gives the binary form, a copy of its own.
func (i ID) Bytes() []byte { return i[:] }

// Kind says who made the ID.
func (i ID) Kind() Kind { return Kind(i[7] & 3) }

// Nanos is the time in the ID as wall ns since the Unix epoch.
func (i ID) Nanos() int64 {
	seconds := int64(binary.BigEndian.Uint32(i[0:4])) + epoch
	return seconds*1e9 + int64(binary.BigEndian.Uint32(i[4:8])>>2)
}

// Time is the time in the ID, UTC.
func (i ID) Time() time.Time { return time.Unix(0, i.Nanos()).UTC() }

// IsZero tells whether i is the zero ID, which names nothing.
func (i ID) IsZero() bool { return i == ID{} }

// Compare is negative when i sorts before o, positive after it, and zero when
// they are the same.
func (i ID) Compare(o ID) int {
	if a, b := binary.BigEndian.Uint64(i[:]), binary.BigEndian.Uint64(o[:]); a != b {
		return cmp.Compare(a, b)
	}
	if a, b := binary.BigEndian.Uint64(i[8:]), binary.BigEndian.Uint64(o[8:]); a != b {
		return cmp.Compare(a, b)
	}
	return cmp.Compare(binary.BigEndian.Uint32(i[16:]), binary.BigEndian.Uint32(o[16:]))
}

// Order is the part of the ID that says its time: what IDs are sorted by first.
func (i ID) Order() [8]byte { return [8]byte(i[:8]) }

// OrderOf gives the first eight bytes of an ID of kind k that is made at a
// wall time in ns. Times outside the range of IDs are held at its ends.
func OrderOf(wall int64, k Kind) [8]byte {
	wall = min(max(wall, firstNanos), lastNanos)
	var o [8]byte
	binary.BigEndian.PutUint32(o[0:4], uint32(wall/1e9-epoch))
	binary.BigEndian.PutUint32(o[4:8], uint32(wall%1e9)<<2|uint32(k&3))
	return o
}

// The first and the last wall ns that an ID can hold.
const (
	firstNanos int64 = epoch * 1_000_000_000
	lastNanos  int64 = (epoch+1<<32)*1_000_000_000 - 1
)
