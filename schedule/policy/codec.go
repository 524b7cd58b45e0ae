package policy

import (
	"encoding/binary"
	"errors"
)

// ErrDamaged is returned when bytes are not a state.
var ErrDamaged = errors.New("policy: damaged state")

// stateVersion begins each state, so that another form can follow.
const stateVersion = 1

// Append appends the state as bytes: a version, a byte of status and one for
// Handled, then its numbers as varints, in the order of their declaration.
func (s State) Append(dst []byte) []byte {
	handled := byte(0)
	if s.Last.Handled {
		handled = 1
	}
	dst = append(dst, stateVersion, byte(s.Last.Status), handled)
	for _, v := range s.numbers() {
		dst = binary.AppendVarint(dst, *v)
	}
	return binary.AppendUvarint(dst, s.Launches)
}

// numbers are the signed numbers of a state.
func (s *State) numbers() []*int64 {
	return []*int64{
		&s.Watermark, &s.Shown, &s.Last.Instant, &s.Last.Begun, &s.Queued,
		&s.Gap.From, &s.Gap.To, &s.Barred.From, &s.Barred.To,
	}
}

// ReadState reads what Append has written, and returns ErrDamaged for anything
// else.
func ReadState(b []byte) (State, error) {
	var s State
	if len(b) < 3 || b[0] != stateVersion || b[1] > byte(Unknown) || b[2] > 1 {
		return State{}, ErrDamaged
	}
	s.Last.Status, s.Last.Handled = Status(b[1]), b[2] == 1
	rest := b[3:]
	for _, v := range s.numbers() {
		n := 0
		if *v, n = binary.Varint(rest); n <= 0 {
			return State{}, ErrDamaged
		}
		rest = rest[n:]
	}
	n := 0
	if s.Launches, n = binary.Uvarint(rest); n <= 0 || n != len(rest) {
		return State{}, ErrDamaged
	}
	return s, nil
}
