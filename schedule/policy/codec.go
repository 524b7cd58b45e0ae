package policy

import (
	"encoding/binary"
	"errors"
)

// ErrDamaged is returned when bytes are not a state.
var ErrDamaged = errors.New("policy: damaged state")

// A version begins each state. The second one has more than one stretch of barred
// instants; it is written where there are more, so that nothing but those is lost
// on a node that does not know it.
const (
	stateVersion = 1
	stateBars    = 2
)

// Append appends the state as bytes: a version, a byte of status and one for
// Handled, then its numbers as varints, in the order of their declaration. Of the
// barred stretches the first is there; in version 2 the number of the others
// follows in the end, and they.
func (s State) Append(dst []byte) []byte {
	handled := byte(0)
	if s.Last.Handled {
		handled = 1
	}
	bars, version := s.Barred.len(), byte(stateVersion)
	if bars > 1 {
		version = stateBars
	}
	dst = append(dst, version, byte(s.Last.Status), handled)
	for _, v := range s.numbers() {
		dst = binary.AppendVarint(dst, *v)
	}
	if dst = binary.AppendUvarint(dst, s.Launches); bars <= 1 {
		return dst
	}
	dst = append(dst, byte(bars-1))
	for _, bar := range s.Barred[1:bars] {
		dst = binary.AppendVarint(binary.AppendVarint(dst, bar.From), bar.To)
	}
	return dst
}

// numbers are the signed numbers of a state.
func (s *State) numbers() []*int64 {
	return []*int64{
		&s.Watermark, &s.Shown, &s.Last.Instant, &s.Last.Begun, &s.Queued,
		&s.Gap.From, &s.Gap.To, &s.Barred[0].From, &s.Barred[0].To,
	}
}

// ReadState reads what Append has written, and returns ErrDamaged for anything
// else.
func ReadState(b []byte) (State, error) {
	var s State
	if len(b) < 3 || b[0] == 0 || b[0] > stateBars || b[1] > byte(Unknown) || b[2] > 1 {
		return State{}, ErrDamaged
	}
	s.Last.Status, s.Last.Handled = Status(b[1]), b[2] == 1
	rest, whole := b[3:], true
	signed := func(to *int64) {
		n := 0
		if *to, n = binary.Varint(rest); n <= 0 {
			rest, whole = nil, false
			return
		}
		rest = rest[n:]
	}
	for _, v := range s.numbers() {
		signed(v)
	}
	n := 0
	if s.Launches, n = binary.Uvarint(rest); n <= 0 {
		return State{}, ErrDamaged
	}
	if rest = rest[n:]; b[0] == stateBars {
		if len(rest) == 0 || rest[0] == 0 || rest[0] >= maxBars {
			return State{}, ErrDamaged
		}
		bars := int(rest[0]) + 1
		rest = rest[1:]
		for i := range s.Barred[1:bars] {
			signed(&s.Barred[1+i].From)
			signed(&s.Barred[1+i].To)
		}
		whole = whole && s.Barred.len() == bars
	}
	if !whole || len(rest) > 0 {
		return State{}, ErrDamaged
	}
	return s, nil
}
