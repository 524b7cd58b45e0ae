package crdt

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrMalformed is returned when bytes are not the canonical form of a fact, or
// a body does not belong under its key.
var ErrMalformed = errors.New("crdt: malformed fact")

// ErrUnknown is returned when a fact is of a kind or version that this build
// does not know: it was written by a newer one, and is not damaged.
var ErrUnknown = errors.New("crdt: fact of an unknown kind or version")

// Kind says what a fact states. The numbers are stored and sent: append only.
type Kind uint8

// Kinds of facts, with what the numbers of their keys are.
const (
	KindEnqueued            Kind = 1
	KindUpdate              Kind = 2 // A token, B sequence number
	KindCompleted           Kind = 3 // A token
	KindCancelled           Kind = 4
	KindFailed              Kind = 5  // A token
	KindExpired             Kind = 6  // A token
	KindDead                Kind = 7  // A generation
	KindDependencyCancelled Kind = 8  // A generation
	KindRequeued            Kind = 9  // A generation
	KindTombstone           Kind = 10 // all that is left of a collected task
	KindUnblocked           Kind = 11
	KindOlder               Kind = 12 // what failures and expiries below a token come to
)

// KeySize is the length of an encoded [Key] in bytes.
const KeySize = 1 + 8 + 8

// Key names a fact within its task.
type Key struct {
	Kind Kind
	A, B uint64 // see the kinds; 0 where a kind has no use for them
}

// Append appends the stored form, [KeySize] bytes. Byte order is the order of
// (Kind, A, B).
func (k Key) Append(dst []byte) []byte {
	dst = append(dst, byte(k.Kind))
	dst = binary.BigEndian.AppendUint64(dst, k.A)
	return binary.BigEndian.AppendUint64(dst, k.B)
}

// DecodeKey is the inverse of [Key.Append]. It returns ErrMalformed for bytes
// that are no key, and ErrUnknown for a key of a kind that this build does not
// know.
func DecodeKey(b []byte) (Key, error) {
	if len(b) != KeySize {
		return Key{}, fmt.Errorf("%w: key of %d bytes, not %d", ErrMalformed, len(b), KeySize)
	}
	k := Key{Kind: Kind(b[0]), A: binary.BigEndian.Uint64(b[1:]), B: binary.BigEndian.Uint64(b[9:])}
	if err := k.check(); err != nil {
		return Key{}, err
	}
	return k, nil
}

// check refuses numbers that the kind has no use for.
func (k Key) check() error {
	switch k.Kind {
	case 0:
		return fmt.Errorf("%w: key without a kind", ErrMalformed)
	case KindEnqueued, KindCancelled, KindTombstone, KindUnblocked, KindOlder:
		if k.A != 0 || k.B != 0 {
			return fmt.Errorf("%w: key of kind %d with numbers %d, %d", ErrMalformed, k.Kind, k.A, k.B)
		}
	case KindCompleted, KindFailed, KindExpired, KindDead, KindDependencyCancelled, KindRequeued:
		if k.B != 0 {
			return fmt.Errorf("%w: key of kind %d with second number %d", ErrMalformed, k.Kind, k.B)
		}
	case KindUpdate:
	default:
		return fmt.Errorf("%w: kind %d", ErrUnknown, k.Kind)
	}
	return nil
}

// Compare is negative when k sorts before o, as their stored forms do.
func (k Key) Compare(o Key) int {
	switch {
	case k == o:
		return 0
	case k.Kind != o.Kind && k.Kind < o.Kind,
		k.Kind == o.Kind && k.A < o.A,
		k.Kind == o.Kind && k.A == o.A && k.B < o.B:
		return -1
	}
	return 1
}
