package message

import (
	"cmp"
	"time"

	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// QuarantineFacts says that a member of the registered cohort has been offered facts of
// tasks that are below the horizon and that it does not know: they may be the
// only copy, or left of what was collected long ago. Whoever offered them and is
// no member keeps them aside from now on (design 6).
type QuarantineFacts struct {
	Partition ring.Partition
	Epoch     uint64 // of the cell that the sender is a member by
	Tasks     []id.ID
}

// RepairCompleted says that a comparison that the sender began has ended well: what
// either side had when it began, which is as long ago as its age, is on the disks of
// both.
type RepairCompleted struct {
	told
	Partition ring.Partition
	Session   uint64 // of the comparison
	Age       time.Duration
}

// Purge has a member of the cohort let tombstones go: every member has them, so
// that nobody has anything else of their tasks.
type Purge struct {
	Partition ring.Partition
	Epoch     uint64 // in which the sender leads
	Tasks     []id.ID
}

// Repair is a message of anti-entropy about one partition.
type Repair struct {
	Partition ring.Partition
	Message   *antientropy.Message
}

// Pair is a partition and another member of its cohort.
type Pair struct {
	Partition ring.Partition
	Peer      register.Member
}

// Compare orders pairs by partition, then by member.
func (a Pair) Compare(b Pair) int {
	return cmp.Or(cmp.Compare(a.Partition, b.Partition), a.Peer.Compare(b.Peer))
}

func (*QuarantineFacts) peerMessage() {}
func (*Purge) peerMessage()           {}
func (*Repair) peerMessage()          {}
