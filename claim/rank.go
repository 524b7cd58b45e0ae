package claim

import (
	"bytes"
	"encoding/binary"

	"github.com/norn-dev/norn/id"
)

// RankSize is the length of a [Rank] in bytes.
const RankSize = 4 + 8 + 20

// Rank is a task's place in its queue: flipped priority, admission time, ID.
// Byte order is claim order, so a Rank is also the end of a ready key.
type Rank [RankSize]byte

// NewRank builds the rank of a task. order is the admission time in the form
// of the first eight bytes of an ID.
func NewRank(priority int32, order [8]byte, task id.ID) Rank {
	var r Rank
	// Flipping all bits but the sign turns "high first" into ascending bytes.
	binary.BigEndian.PutUint32(r[0:4], ^(uint32(priority) ^ 1<<31))
	copy(r[4:12], order[:])
	copy(r[12:], task[:])
	return r
}

// Task is the ranked task.
func (r *Rank) Task() id.ID { return id.ID(r[12:]) }

// Priority is the task's priority.
func (r *Rank) Priority() int32 {
	return int32(^binary.BigEndian.Uint32(r[0:4]) ^ 1<<31)
}

// Order is the admission part of the rank.
func (r *Rank) Order() [8]byte { return [8]byte(r[4:12]) }

// Compare is negative when r is handed out before o.
func (r *Rank) Compare(o *Rank) int { return bytes.Compare(r[:], o[:]) }
