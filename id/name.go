package id

import (
	"crypto/sha256"
	"encoding/binary"
)

// Launch names one occurrence of a schedule: the ID's time is the scheduled
// instant in wall ns, the rest the first 96 bits of SHA-256 over cluster,
// schedule and instant (design 3). No version of the schedule is in it, so
// that two masters that hold different versions name the same launch alike.
func Launch(cluster, schedule [16]byte, instant int64) ID {
	h := appendField(nil, cluster[:])
	h = appendField(h, schedule[:])
	h = appendField(h, binary.BigEndian.AppendUint64(nil, uint64(instant)))
	return named(instant, KindLaunch, h)
}

// UniqueKey names the task of a unique key in a queue (design 3). With a
// window, windowStart is its first wall ns and the generation is left out: the
// key is taken once per window. Without one, windowStart is 0 and the
// generation goes up each time the task before is seen finished.
//
// The hash is over cluster, queue, key, and 'w' with the window start or 'g'
// with the generation.
func UniqueKey(cluster [16]byte, queue, key string, windowStart int64, generation uint64) ID {
	h := appendField(nil, cluster[:])
	h = appendField(h, []byte(queue))
	h = appendField(h, []byte(key))
	last := binary.BigEndian.AppendUint64([]byte{'g'}, generation)
	if windowStart != 0 {
		last = binary.BigEndian.AppendUint64([]byte{'w'}, uint64(windowStart))
	}
	return named(windowStart, KindKey, appendField(h, last))
}

// appendField appends a field with its length before it (8 bytes, big endian),
// so that no two lists of fields have the same bytes.
func appendField(dst, field []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(len(field)))
	return append(dst, field...)
}

func named(wall int64, k Kind, fields []byte) ID {
	var i ID
	order, hash := OrderOf(wall, k), sha256.Sum256(fields)
	copy(i[:8], order[:])
	copy(i[8:], hash[:])
	return i
}

// Derived is one of the tasks that follow from another ID, which is of kind 0 as
// well: its time, and 96 bits of SHA-256 over it and the number, so that a
// request that makes many tasks and is repeated makes the same ones.
func Derived(seed ID, number uint64) ID {
	h := appendField(nil, seed[:])
	h = appendField(h, binary.BigEndian.AppendUint64([]byte{'d'}, number))
	return named(seed.Nanos(), KindTask, h)
}
