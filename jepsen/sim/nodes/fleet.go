package nodes

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/norn-dev/norn/jepsen/sim/disk"
	"github.com/norn-dev/norn/jepsen/sim/stats"
	"github.com/norn-dev/norn/jepsen/sim/witness"
	"github.com/norn-dev/norn/jepsen/sim/world"
	"github.com/norn-dev/norn/node/core"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/group"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
)

// Fleet is a cluster: the nodes that there are or were, and what lies between
// them. Nodes have numbers here; to each other they are members.
type Fleet struct {
	S       *System
	Nodes   []*Node
	Links   [][]Link // from, to
	Harm    Harm
	seen    uint64 // the newest revision of the register that any node has seen
	Cells   []register.Cell
	Records []register.Node // at that revision
	// replicas is how many there were to be by then; 0: nobody has heard.
	replicas int

	Leaders  *witness.Leaders         // nil: nobody notes who leads
	applied  map[uint64]uint64        // of the register's log: the term of each entry that somebody has applied
	Believed iter.Seq[witness.Claim]  // the claims that workers have
	Witness  *witness.Witness         // nil: disks get lost
	Moved    map[ring.Partition]int64 // true time since when its cell is as it is

	Forming bool        // the cluster is not whole for the first time yet
	Stormy  bool        // messages between nodes get lost
	Closing bool        // the last tasks of the run were made
	Whole   int64       // when it was, true time
	Before  stats.Stats // what had happened when the storm began
	Stable  bool        // nothing was elected or moved in the lull before it
}

// Harm is what goes wrong in a cluster, as far as it hears what happens to nodes.
type Harm interface {
	// SetRight has wall clocks go right that were set ahead alike, as a node is about to start or down.
	SetRight()
	// Expected tells whether what was done to the disks of a node explains how its process ends.
	Expected(n *Node, err error) bool
	// Denied tells whether what one node says that is not so explains it.
	Denied(n *Node, err error) bool
	// Seeks sees a node ask for a cell.
	Seeks(c *register.Change)
	// Forged is what a node sends in the place of a message.
	Forged(from *Node, m message.PeerMessage) message.PeerMessage
	// Overhear sees a message of the register's group.
	Overhear(from, to *Node, data []byte)
}

// NewFleet makes the run one of a cluster, which has no nodes yet.
func NewFleet(s *System) *Fleet {
	s.Fleet = &Fleet{S: s, Forming: true, applied: map[uint64]uint64{}, Moved: map[ring.Partition]int64{}}
	s.Many = true
	return s.Fleet
}

// Add makes room for one more node.
func (f *Fleet) Add() *Node {
	n := &Node{S: f.S, Index: len(f.Nodes), paused: map[string]bool{}}
	n.Self.Node = fmt.Sprintf("n%d", n.Index+1)
	f.Nodes = append(f.Nodes, n)
	for i := range f.Links {
		f.Links[i] = append(f.Links[i], Link{})
	}
	f.Links = append(f.Links, make([]Link, len(f.Nodes)))
	return n
}

// zone is where a node stands: two share one.
func (f *Fleet) zone(n *Node) string { return fmt.Sprintf("z%d", n.Index%f.S.Plan.Cluster.Zones+1) }

// Mint gives a node empty disks and with them a new incarnation.
func (f *Fleet) Mint(n *Node) {
	n.Disk, n.Cells = disk.New(), disk.New()
	f.become(n)
}

// become gives a node a new incarnation.
func (f *Fleet) become(n *Node) {
	n.Hurt = false
	for i := range n.Self.Incarnation {
		n.Self.Incarnation[i] = byte(f.S.Rnd.Uint32())
	}
}

// record is the node as the register is to know it.
func (f *Fleet) record(n *Node, status register.NodeStatus) register.Node {
	return register.Node{Member: n.Self, Addresses: []string{n.Self.Node + ":1"}, Zone: f.zone(n), Weight: 1, Status: status}
}

// Found makes the cluster.
func (f *Fleet) Found(n *Node) {
	f.Mint(n)
	f.format(n, func(b *store.Batch) error {
		state := register.First(fixed(&f.S.Plan), f.record(n, register.Active))
		if f.S.Plan.Cluster.Made {
			state = core.Growing(state, f.S.Plan.Cluster.Nodes)
		}
		return group.Begin(n.Cells, b, state, n.Self)
	})
	n.Start()
}

func (f *Fleet) format(n *Node, write func(b *store.Batch) error) {
	var b store.Batch
	if err := write(&b); err != nil {
		f.S.Broken("%sthe register cannot be formatted: %v", n, err)
		return
	}
	n.Cells.Write(&b)
	n.Cells.Secure(n.Cells.Applied)
}

// Join asks to be let in, as a new incarnation, until somebody says yes: any
// member writes the newcomer into the register. Then its leader fills the node.
func (f *Fleet) Join(n *Node) {
	f.Mint(n)
	f.S.Note("%sasks to join", n)
	f.enter(n)
}

// Rejoin is the same with the facts that the node has from its life before.
func (f *Fleet) Rejoin(n *Node) {
	n.Cells = disk.New()
	f.become(n)
	f.S.Note("%sasks to join with the facts of the life before", n)
	f.enter(n)
}

func (f *Fleet) enter(n *Node) {
	s := f.S
	life := n.Life
	again := func() {
		s.After(s.About(500*time.Millisecond), func() {
			if n.Life == life && !n.Up && !n.Away {
				f.enter(n)
			}
		})
	}
	by := world.Pick(&s.World, f.Nodes)
	if by == n || !by.Up || by.Peers.State().Cluster.Partitions == 0 || f.apart(n, by) {
		again()
		return
	}
	s.After(s.Delay(), func() {
		if !by.Up {
			again()
			return
		}
		by.Peers.Do(register.Request{Nodes: []register.NodeChange{{New: f.record(n, register.Joining)}}}, func(r register.Result) {
			if n.Life != life || n.Up || n.Away {
				return
			}
			if _, known := r.State.Find(n.Self); r.Err != nil || !known {
				again()
				return
			}
			f.format(n, func(b *store.Batch) error { return group.Join(n.Cells, b, ClusterID, n.Self) })
			s.Note("%swas let in by %s", n, by.Self.Node)
			s.Stats[stats.Joins]++
			n.Start()
		})
		s.After(6*time.Second, again) // the answer may never come
	})
}

// Alive gives the nodes that run.
func (f *Fleet) Alive() []*Node {
	return slices.DeleteFunc(slices.Clone(f.Nodes), func(n *Node) bool { return !n.Up })
}

// Find gives the node of a name.
func (f *Fleet) Find(m register.Member) *Node {
	for _, n := range f.Nodes {
		if n.Self.Node == m.Node {
			return n
		}
	}
	return nil
}
