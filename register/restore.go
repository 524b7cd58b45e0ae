package register

import (
	"encoding/binary"
	"maps"
	"slices"
)

// EpochJump is what each generation after a restore or a forced restart adds to
// every epoch, so that nothing of the life before, known here or not, is ahead
// (design 7.1).
const EpochJump = 1 << 20

// MaxGeneration bounds the generations of a register: an epoch is 32 bits of a
// token, and most of them are left to elections.
const MaxGeneration = 2048

// Restored is the state with which a cluster goes on after its register was
// forced to restart without its majority: a new generation, every epoch far
// ahead and led by nobody, and self alone. The other nodes count as removed:
// what they bring back joins as a zombie's.
func (s State) Restored(self Node) State { return s.next(self, s.Generation+1) }

// RebuiltValue is the name of the register's value that says when the cluster began
// anew from a backup.
const RebuiltValue = "register.rebuilt"

// Rebuilt is the state with which a cluster begins anew from a backup of its
// register, all its nodes being lost: as Restored, in the generation given,
// which is to be one that there never was, and with self as the whole cohort of
// every partition, since nobody else is left to be asked. at is the time, wall
// ns.
func (s State) Rebuilt(self Node, generation uint64, at int64) State {
	s = s.next(self, generation)
	for i := range s.Cells {
		s.Cells[i].Cohort = []Member{self.Member}
	}
	s.Values = maps.Clone(s.Values)
	if s.Values == nil {
		s.Values = make(map[string]Value)
	}
	data := binary.AppendVarint(binary.AppendUvarint(nil, generation), at)
	s.Values[RebuiltValue] = Value{Version: s.Values[RebuiltValue].Version + 1, Data: data}
	return s
}

// LastRebuilt is the generation that began from a backup last, and when, wall ns.
// Nodes of earlier ones count in no cohort. It is 0 where there was none.
func (s *State) LastRebuilt() (generation uint64, at int64) {
	data := s.Values[RebuiltValue].Data
	generation, n := binary.Uvarint(data)
	if n <= 0 {
		return 0, 0
	}
	at, _ = binary.Varint(data[n:])
	return generation, at
}

// Reshaped is the state of a cluster with another number of partitions and of replicas (0: as
// it is), to begin anew from: nothing of the cells and of the plan is left but that each
// epoch is no lower than any was. So tokens only rise, whichever partition a task is in now.
func (s State) Reshaped(partitions, replicas int) State {
	if replicas != 0 {
		s.Cluster.Replicas = replicas
	}
	if partitions == 0 || partitions == s.Cluster.Partitions {
		return s
	}
	highest := uint64(0)
	for i := range s.Cells {
		highest = max(highest, s.Cells[i].Epoch)
	}
	s.Cluster.Partitions, s.Cells, s.Plan.Data = partitions, make([]Cell, partitions), nil
	for i := range s.Cells {
		s.Cells[i].Epoch = highest
	}
	return s
}

func (s State) next(self Node, generation uint64) State {
	jump := EpochJump * (generation - s.Generation)
	s.Generation = generation
	s.Revision++
	s.Cells = slices.Clone(s.Cells)
	for i := range s.Cells {
		c := &s.Cells[i]
		c.Epoch += jump
		c.Leader, c.Nonce = Member{}, 0
	}
	s.Nodes = slices.Clone(s.Nodes)
	at, found := s.node(self.Member)
	if found {
		self.Version = s.Nodes[at].Version
		s.Nodes = slices.Delete(s.Nodes, at, at+1)
	}
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Status != Removed {
			n.Status, n.Version, n.Changed = Removed, n.Version+1, s.Revision
		}
	}
	at, _ = s.node(self.Member)
	self.Version, self.Changed, self.Status = self.Version+1, s.Revision, Active
	s.Nodes = slices.Insert(s.Nodes, at, self)
	s.suspendAccess()
	s.forget()
	s.Members = members(s.Nodes)
	return s
}
