package group

import (
	"fmt"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/store"
)

// Format writes the beginning of a group of one into b: the first state of the
// cluster, with self as its only voter. It happens once in the life of a
// cluster. It returns ErrFormatted when the view holds a group.
func Format(v store.View, b store.Writer, c register.Cluster, self register.Node) error {
	return Begin(v, b, register.First(c, self), self.Member)
}

// Join writes the beginning of a member that a leader will find and fill. It
// returns ErrFormatted when the view holds a group.
func Join(v store.View, b store.Writer, cluster register.UUID, self register.Member) error {
	if err := vacant(v, cluster, self); err != nil {
		return err
	}
	m := meta{cluster, self}
	b.Set([]byte(metaKey), sealed(m.encode()))
	(&disk{}).setBoot(b, 0)
	return nil
}

// vacant returns ErrFormatted when there is a group, and says whose.
func vacant(v store.View, cluster register.UUID, self register.Member) error {
	raw, ok := v.Get([]byte(metaKey))
	if !ok {
		return nil
	}
	raw, ok = opened(raw)
	if !ok {
		return fmt.Errorf("%w, and its identity is damaged", ErrFormatted)
	}
	m, err := decodeMeta(raw)
	if err != nil {
		return fmt.Errorf("%w, and its identity is damaged", ErrFormatted)
	}
	if m.cluster == cluster && m.self == self {
		return fmt.Errorf("%w, for this very member", ErrFormatted)
	}
	return fmt.Errorf("%w: by cluster %v for %s in incarnation %v; this is cluster %v, %s, incarnation %v",
		ErrFormatted, m.cluster, m.self.Node, m.self.Incarnation, cluster, self.Node, self.Incarnation)
}

// Begin writes a group of one that goes on from a state of which self is a
// member. It returns ErrFormatted when the view holds a group.
func Begin(v store.View, b store.Writer, s register.State, self register.Member) error {
	if err := vacant(v, s.Cluster.ID, self); err != nil {
		return err
	}
	return write(b, s, self, 1, 1, 0)
}

func write(b store.Writer, s register.State, self register.Member, index, term, boot uint64) error {
	m, p, d := meta{s.Cluster.ID, self}, newReplica(s), disk{}
	b.Set([]byte(metaKey), sealed(m.encode()))
	d.setBoot(b, boot)
	err := d.setHard(b, &pb.HardState{Term: new(term), Vote: new(uint64(0)), Commit: new(index)})
	if err != nil {
		return err
	}
	return d.setSnapshot(b, &pb.Snapshot{Data: p.encode(), Metadata: &pb.SnapshotMetadata{
		Index: new(index), Term: new(term),
		ConfState: &pb.ConfState{Voters: []uint64{self.Incarnation.ID()}, AutoLeave: new(false)},
	}})
}

// Export gives the register as the member in v has it, with everything in its
// log, committed or not: what a forced restart goes on from. It returns ErrNotFormatted when there is none.
func Export(v store.View) (register.State, error) {
	_, _, p, err := replayed(v)
	return p.state, err
}

// replayed is what a store holds with the whole log applied. Entries that are
// not known to be committed count: an answer may have been given for them.
func replayed(v store.View) (meta, *disk, replica, error) {
	m, d, p, err := load(v)
	if err != nil {
		return m, nil, p, err
	}
	for _, e := range d.entries {
		if e.GetIndex() > d.snap.GetIndex() && e.GetType() == pb.EntryNormal && len(e.GetData()) > 0 {
			if _, err := p.apply(e.GetIndex(), e.GetData()); err != nil {
				return m, nil, p, err
			}
		}
	}
	return m, d, p, nil
}

// Restore writes the beginning of a group of one from a backed-up state, at a
// time (wall ns) and in a generation that there never was: see
// register.State.Rebuilt. It returns
// ErrFormatted when the view holds a group.
func Restore(v store.View, b store.Writer, s register.State, generation uint64, at int64, self register.Node) error {
	return Begin(v, b, s.Rebuilt(self, generation, at), self.Member)
}

// Force makes the member in v a group of one, with what its own log holds: the
// way out when the majority is lost for good. Epochs jump, the generation rises
// and the other members count as removed. Only an operator may want this.
func Force(v store.View, b store.Writer, self register.Node) error {
	m, d, p, err := replayed(v)
	if err != nil {
		return err
	}
	if m.self != self.Member {
		return fmt.Errorf("%w: %s in incarnation %v", ErrOtherOwner, m.self.Node, m.self.Incarnation)
	}
	if p.state.Cluster.Partitions == 0 {
		return fmt.Errorf("%w: a member that no leader has filled", register.ErrNotFormatted)
	}
	index, term := d.last()+1, d.hard.GetTerm()+1
	for i := d.base; i <= d.last(); i++ {
		b.Delete(logKey(i))
	}
	for i := range d.pieces {
		b.Delete(dataKey(i))
	}
	return write(b, p.state.Restored(self), self.Member, index, term, d.boot)
}
