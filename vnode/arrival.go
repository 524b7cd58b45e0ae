package vnode

import "encoding/binary"

// arrivalSize is the length of what [arrival] gives.
const arrivalSize = 8 + 8

// arrival is what stands in an index beside something that came here at an instant,
// mono ns: the wall clock at which the vnode was opened, and the instant. Whatever the
// wall clock does, what an earlier process wrote is older than anything that this one
// did. It is good until the next call.
func arrival(v *Vnode, mono int64) []byte {
	b := binary.BigEndian.AppendUint64(v.came[:0], uint64(v.opened))
	return binary.BigEndian.AppendUint64(b, uint64(mono))
}

// arrivedAfter tells of such a value whether the thing came here in this process, and
// later than at the mono ns before. Builds before this one wrote nothing beside finished
// tasks.
func arrivedAfter(v *Vnode, came []byte, before int64) bool {
	return len(came) == arrivalSize && int64(binary.BigEndian.Uint64(came)) == v.opened && int64(binary.BigEndian.Uint64(came[8:])) > before
}
