package vnode

import "encoding/binary"

// What [arrival] gives takes 8 bytes, which each finished task and each tombstone pays: a tag
// of the process, and a time in steps of about a millisecond, which is enough for 36 years.
const (
	arrivalSize = tagSize + 5
	tagSize     = 3
	arrivalStep = 20 // bits of a mono ns
)

// arrival is what stands in an index beside something that came here at an instant,
// mono ns: a tag of when the vnode was opened, by the wall clock, and the instant. Whatever
// the wall clock does, what an earlier process wrote is older than anything that this one
// did. Where the tag of an earlier one happens to be the same it looks younger than it is
// until this process is as old as that one was. It is good until the next call.
func arrival(v *Vnode, mono int64) []byte {
	steps := (uint64(max(mono, 0)) + 1<<arrivalStep - 1) >> arrivalStep // it is never older than it is
	b := binary.BigEndian.AppendUint64(v.came[:0], steps|tagOf(v)<<(64-8*tagSize))
	return b[:arrivalSize]
}

// arrivedAfter tells of such a value whether the thing came here in this process, and
// later than at the mono ns before. Builds before this one wrote 16 bytes, and before that
// nothing beside finished tasks: they were earlier processes.
func arrivedAfter(v *Vnode, came []byte, before int64) bool {
	if len(came) != arrivalSize {
		return false
	}
	n := binary.BigEndian.Uint64(came)
	return n>>(64-8*tagSize) == tagOf(v) && int64(n<<(8*tagSize)>>(8*tagSize)<<arrivalStep) > before
}

// tagOf spreads the time at which the vnode was opened over a tag.
func tagOf(v *Vnode) uint64 { return uint64(v.opened) * 0x9e3779b97f4a7c15 >> (64 - 8*tagSize) }
