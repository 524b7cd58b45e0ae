package register

import (
	"cmp"
	"slices"
)

// NodeStatus is where a node is on its way through the cluster.
type NodeStatus uint8

// The ways are joining to member, member to leaving and back, and from
// everywhere to removed, which is final: the same incarnation does not return.
const (
	Joining NodeStatus = 1 + iota // copies the register; owns nothing yet
	Active                        // a member
	Leaving                       // a member that hands over what it has
	Removed                       // no member any more; what it brings back is a zombie's
)

// String is the status as people read it.
func (s NodeStatus) String() string {
	switch s {
	case Joining:
		return "joining"
	case Active:
		return "member"
	case Leaving:
		return "leaving"
	case Removed:
		return "removed"
	}
	return "unknown"
}

// Node is what the cluster knows of one node in one incarnation.
type Node struct {
	Member
	// Version goes up with each change of this record, from 1.
	Version uint64
	// Addresses are where peers reach it, HOST:PORT, the best first.
	Addresses []string
	// Zone names what fails together.
	Zone string
	// Weight is its share of partitions relative to the others.
	Weight uint32
	Status NodeStatus
	// Changed is the revision of the register that wrote this record.
	Changed uint64
}

// NodeChange asks for one compare-and-set of a node's record, found by name
// and incarnation: New is written if the version is still Old (0: no record)
// and the status may follow the one before. Version and Changed of New are
// filled in.
type NodeChange struct {
	Old uint64
	New Node
}

// Value is something with a version that the register does not look into.
type Value struct {
	Version uint64 // goes up with each change, from 1
	Data    []byte
}

// ValueChange asks for one compare-and-set of a value.
type ValueChange struct {
	Name string
	Old  uint64
	Data []byte
}

// PlanChange asks for one compare-and-set of the planned placement.
type PlanChange struct {
	Old  uint64
	Data []byte
}

// Limits of a record: what a peer may make every node hold for ever.
const (
	MaxName      = 255       // bytes in a name of a node, a zone, a queue or a value
	MaxAddresses = 8         // of one node
	MaxAddress   = 255       // bytes in an address
	MaxNodes     = 1024      // that are not removed
	MaxRemoved   = 1024      // removed ones that are remembered; the oldest go first
	MaxCohort    = 31        // members in one cell
	MaxNamed     = 1 << 14   // queues, and values
	MaxData      = 64 << 10  // bytes in the settings of a queue, or in a value
	MaxPlan      = 512 << 10 // bytes in the planned placement: it must fit into one proposal
)

// follows says whether a status may come after another; 0 is no record.
func (s NodeStatus) follows(old NodeStatus) bool {
	switch s {
	case Joining:
		return old == 0 || old == Joining
	case Active:
		return old == Joining || old == Active || old == Leaving
	case Leaving:
		return old == Joining || old == Active || old == Leaving // a joiner has nothing to hand over
	case Removed:
		return old != 0 && old != Removed
	}
	return false
}

func (n *Node) valid() bool {
	if n.Node == "" || len(n.Node) > MaxName || len(n.Zone) > MaxName || len(n.Addresses) > MaxAddresses {
		return false
	}
	return !slices.ContainsFunc(n.Addresses, func(a string) bool { return a == "" || len(a) > MaxAddress })
}

// Compare orders members by name, then incarnation.
func (a Member) Compare(b Member) int {
	return cmp.Or(cmp.Compare(a.Node, b.Node), slices.Compare(a.Incarnation[:], b.Incarnation[:]))
}

// node finds a record.
func (s *State) node(m Member) (at int, found bool) {
	return slices.BinarySearchFunc(s.Nodes, m, func(n Node, m Member) int { return n.Member.Compare(m) })
}

// Find gives the record of a member.
func (s *State) Find(m Member) (Node, bool) {
	at, ok := s.node(m)
	if !ok {
		return Node{}, false
	}
	return s.Nodes[at], true
}

// setNode decides one change of a node's record. s owns its Nodes.
func (s *State) setNode(c *NodeChange) bool {
	at, found := s.node(c.New.Member)
	var old Node
	if found {
		old = s.Nodes[at]
	}
	if old.Version != c.Old || !c.New.Status.follows(old.Status) || !c.New.valid() {
		return false
	}
	living := 0
	for i := range s.Nodes {
		o := &s.Nodes[i]
		if o.Status != Removed {
			living++
		}
		if found && i == at {
			continue
		}
		// Invariant: a name has at most one node that is a member.
		if enters := c.New.Status == Active || c.New.Status == Leaving && old.Status == Joining; o.Node == c.New.Node && enters && (o.Status == Active || o.Status == Leaving) {
			return false
		}
		// Invariant: the group tells nodes apart by the ID of their incarnation.
		if o.Incarnation.ID() == c.New.Incarnation.ID() {
			return false
		}
	}
	n := c.New
	n.Addresses = slices.Clone(n.Addresses)
	n.Version, n.Changed = old.Version+1, s.Revision+1
	switch {
	case found:
		s.Nodes[at] = n
	case living >= MaxNodes:
		return false
	default:
		s.Nodes = slices.Insert(s.Nodes, at, n)
	}
	s.forget()
	s.Members = members(s.Nodes)
	return true
}

// forget drops the removed nodes that were removed first.
func (s *State) forget() {
	removed, oldest := 0, -1
	for i := range s.Nodes {
		if s.Nodes[i].Status != Removed {
			continue
		}
		if removed++; oldest < 0 || s.Nodes[i].Changed < s.Nodes[oldest].Changed {
			oldest = i
		}
	}
	if removed > MaxRemoved {
		s.Nodes = slices.Delete(s.Nodes, oldest, oldest+1)
	}
}

// members are the nodes that own something.
func members(nodes []Node) []Member {
	var out []Member
	for i := range nodes {
		if s := nodes[i].Status; s == Active || s == Leaving {
			out = append(out, nodes[i].Member)
		}
	}
	return out
}
