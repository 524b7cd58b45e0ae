package register

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"

	"github.com/norn-dev/norn/ring"
)

// Incarnation is minted when a data directory is formatted. A wiped, restored
// or cloned directory is a different member (design 7.1).
type Incarnation [16]byte

// String is the incarnation in hexadecimal.
func (i Incarnation) String() string { return hex.EncodeToString(i[:]) }

// ID is the number under which the group knows an incarnation: it is random, so
// its first bytes tell members apart. 0 and the two largest are not used.
func (i Incarnation) ID() uint64 {
	n := binary.LittleEndian.Uint64(i[:])
	if n == 0 || n >= math.MaxUint64-1 {
		return 1
	}
	return n
}

// UUID identifies a cluster.
type UUID [16]byte

// String is the usual form, 8-4-4-4-12.
func (u UUID) String() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[0:4], u[4:6], u[6:8], u[8:10], u[10:16])
}

// Member is a node in one incarnation: what cohorts list.
type Member struct {
	Node        string
	Incarnation Incarnation
}

// Cell is the value of one partition. Epochs strictly increase (K1); the nonce
// tells the writer of an unclear compare-and-set whether it won.
type Cell struct {
	Epoch  uint64
	Cohort []Member
	Leader Member
	Nonce  uint64
}

// Same compares what a compare-and-set compares: epoch and nonce name a
// written value uniquely.
func (c *Cell) Same(o *Cell) bool { return c.Epoch == o.Epoch && c.Nonce == o.Nonce }

// Cluster is what a cluster is made with. ID and Partitions stay for ever.
type Cluster struct {
	ID         UUID
	Partitions int
	// Replicas is how many copies of each partition there are to be, as far as there
	// are nodes: 1 to [ring.MaxReplicas]. A [ReplicasChange] sets it.
	Replicas int
}

// State is a linearizable picture of the register.
type State struct {
	Cluster Cluster
	Members []Member
	Cells   []Cell // by partition
	Queues  map[string]Queue
	// QueuesGone is the highest version of the settings of a queue that has none any more.
	QueuesGone uint64

	// Revision goes up by one with each request that has changed something. Of
	// two states the one with the greater revision is the newer.
	Revision uint64
	// Generation goes up when the register is restored or forced to restart.
	// Whoever remembers another one has an older life's data.
	Generation uint64
	// Nodes are all that are known, by name and incarnation; Members are those
	// of them that own something.
	Nodes []Node
	// Plan is the planned placement.
	Plan Value
	// Values are what must be equal on all nodes, by name.
	Values map[string]Value
	// Schedules are all schedules, Master is who launches them.
	Schedules Schedules
	Master    Mastership
	// Names are those that somebody holds.
	Names map[string]Name
	// NamesAt is the newest revision that wrote a name, HoldersAt the newest one that
	// changed who holds one.
	NamesAt, HoldersAt uint64
	// Access says who may do what, by key; the register does not look into it. AccessAt is the
	// newest revision that wrote some of it.
	Access   map[string]Value
	AccessAt uint64
}

// Queue is what operators have set for one queue. The register does not look
// into the settings.
type Queue struct {
	Version  uint64 // goes up with each change, from 1; of a queue that had others before, from above [State.QueuesGone]
	Settings []byte
}

// QueueChange asks for one compare-and-set of a queue's settings: they are
// written if the version is still Old (0: the queue has none). Without Settings the
// queue has none any more; no later version is one that it had before.
type QueueChange struct {
	Name     string
	Old      uint64
	Settings []byte
}

// Change asks for one compare-and-set: New is written if the cell is still Old
// and New's epoch is greater.
type Change struct {
	Partition ring.Partition
	Old, New  Cell
}

// Request is a read, or with anything but a tag a batch of compare-and-sets.
type Request struct {
	// Tag comes back in the result.
	Tag uint64
	// Changes are decided one by one, in order, in one commit.
	Changes []Change
	// Queues likewise.
	Queues []QueueChange
	// Nodes likewise.
	Nodes []NodeChange
	// Values likewise.
	Values []ValueChange
	// Names likewise.
	Names []NameChange
	// Access likewise.
	Access []AccessChange
	// Plan likewise; nil asks for nothing.
	Plan *PlanChange
	// Replicas likewise; nil asks for nothing.
	Replicas *ReplicasChange
	// Master likewise; nil asks for nothing. It is decided before Schedules.
	Master *MasterChange
	// Schedules likewise. With a Nonce they are decided only while the mastership
	// has it: what a master asks for that is none any more changes nothing.
	Schedules []ScheduleChange
	Nonce     uint64
}

// Reads says that the request asks for no change.
func (r *Request) Reads() bool {
	return len(r.Changes) == 0 && len(r.Queues) == 0 && len(r.Nodes) == 0 && len(r.Values) == 0 && len(r.Names) == 0 && len(r.Access) == 0 && r.Plan == nil && r.Replicas == nil && !r.schedules()
}

// schedules says that the request is about schedules.
func (r *Request) schedules() bool { return r.Master != nil || len(r.Schedules) > 0 }

// Result answers a request.
type Result struct {
	Tag uint64
	// Won says for each change whether it was written.
	Won []bool
	// QueuesWon, NodesWon, ValuesWon and NamesWon likewise.
	QueuesWon, NodesWon, ValuesWon, NamesWon []bool
	// PlanWon, MasterWon and ReplicasWon likewise.
	PlanWon, MasterWon, ReplicasWon bool
	// SchedulesWon likewise.
	SchedulesWon []bool
	// AccessWon likewise.
	AccessWon []bool
	// State is the register after the request, by a linearizable read. It may
	// hold later changes too.
	State State
	// Err says that the outcome is not known; read again.
	Err error
}

// Register is the linearizable store behind the cells.
type Register interface {
	// Do takes a request and sees to it that done is called once with its
	// result, from any goroutine.
	Do(r Request, done func(Result))
	// Subscribe has fn called with the state after each change. The call must
	// not block.
	Subscribe(fn func(State))
	// Members gives the members as last seen here.
	Members() []Member
	// Close ends it; requests under way get an error.
	Close() error
}
