package operator

import (
	"encoding/binary"
	"slices"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/call"
	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/node/core/router"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"

	"github.com/cespare/xxhash/v2"
	gproto "google.golang.org/protobuf/proto"
)

// maxVerifyQueues bounds the queues in one replica's answer about a partition.
const maxVerifyQueues = 1000

// maxVerifyAside bounds the tasks that are named in it because facts of theirs are
// kept aside.
const maxVerifyAside = 100

// Verify compares what the replicas of partitions hold (design 6): the roots of their trees and
// the counters that follow from facts alone. It asks every replica, or answers for the one that is here.
func (c *Machine) Verify(now clock.Time, r *message.Request, m *nornv1.VerifyRequest) (gproto.Message, *proto.Error) {
	if bad := c.checkVerify(m); bad != nil {
		return nil, bad
	}
	if r.Routed {
		reply := &nornv1.VerifyReply{}
		for _, p := range m.GetPartitions() {
			s := c.replica(ring.Partition(p), m.GetQueues())
			reply.Partitions = append(reply.Partitions, &nornv1.VerifiedPartition{Id: p, Replicas: []*nornv1.ReplicaState{s}})
		}
		return reply, nil
	}
	if c.Routes.Crowds(r.From) {
		return nil, refusal.Crowded(router.MaxWaiting)
	}
	return c.compare(now, r, m)
}

func (c *Machine) checkVerify(m *nornv1.VerifyRequest) *proto.Error {
	most := proto.MaxVerify
	if m.GetQueues() {
		most = proto.MaxVerifyQueues
	}
	if n := len(m.GetPartitions()); n == 0 || n > most {
		return proto.Invalid("%d partitions to verify, not 1 to %d", n, most)
	}
	return convert.CheckPartitions(m.GetPartitions(), len(c.View.Cells))
}

// compare asks all replicas.
func (c *Machine) compare(now clock.Time, r *message.Request, m *nornv1.VerifyRequest) (gproto.Message, *proto.Error) {
	join := &verified{asked: m.GetPartitions()}
	groups := call.NewGroups()
	for i, p := range m.GetPartitions() {
		for _, at := range c.View.Cells[p].Cohort {
			slot := len(join.slots)
			join.slots = append(join.slots, replicaSlot{partition: i, member: at})
			if c.View.Up(at) {
				groups.Add(at, slot)
			} else {
				join.missing(slot, "it is not in reach")
			}
		}
	}
	g := c.Routes.Gather(now, r, join, 0)
	for _, to := range groups.Order {
		ask := &nornv1.VerifyRequest{Queues: m.GetQueues()}
		for _, slot := range groups.Of[to] {
			ask.Partitions = append(ask.Partitions, m.GetPartitions()[join.slots[slot].partition])
		}
		c.Routes.Forward(now, g, to, groups.Of[to], ask, nil)
	}
	c.Routes.Finish(g)
	return nil, nil
}

// replica is what this node holds of a partition.
func (c *Machine) replica(p ring.Partition, queues bool) *nornv1.ReplicaState {
	s := &nornv1.ReplicaState{Node: c.Self.Node, Incarnation: c.Self.Incarnation.String()}
	v, tree := c.Partitions.Use(p), vnode.Tree(c.Partitions.See(p))
	switch {
	case c.View.Dropping[p]:
		s.Problem = "it has handed the partition over"
		return s
	case tree == nil && len(c.View.Cells[p].Cohort) > 1:
		s.Problem = "it still counts what it has"
		return s
	case tree != nil:
		root := tree.Root(vnode.Settled(v, c.Round.Tx))
		s.Root, s.Facts = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, root.Sum[0]), root.Sum[1]), root.Count
	}
	c.aside(s, v)
	var hash xxhash.Digest
	hash.Reset()
	v.Queues(func(name string, n *vnode.Counts) {
		q := &nornv1.QueueCounters{
			Queue: name, Completed: n[crdt.StateCompleted], Dead: n[crdt.StateDead], Cancelled: n[crdt.StateCancelled],
			Unfinished: n[crdt.StateWaiting] + n[crdt.StateScheduled] + n[crdt.StateReady] + n[crdt.StateClaimed],
		}
		s.Unfinished += q.Unfinished
		s.Completed += q.Completed
		s.Dead += q.Dead
		s.Cancelled += q.Cancelled
		if q.Unfinished+q.Completed+q.Dead+q.Cancelled == 0 {
			return // known here, and for all the others not
		}
		b := append([]byte(name), 0)
		for _, x := range []uint64{q.Unfinished, q.Completed, q.Dead, q.Cancelled} {
			b = binary.BigEndian.AppendUint64(b, x)
		}
		_, _ = hash.Write(b)
		if queues && len(s.Queues) < maxVerifyQueues {
			s.Queues = append(s.Queues, q)
		}
	})
	s.Counters = hash.Sum64()
	return s
}

// aside tells what is kept aside of a partition.
func (c *Machine) aside(s *nornv1.ReplicaState, v *vnode.Vnode) {
	tasks, _ := vnode.KeptAside(v)
	if tasks == 0 {
		return
	}
	all, err := vnode.Asides(c.Round.Tx, v.Partition, id.ID{}, maxVerifyAside)
	if !c.Round.Check(err) {
		return
	}
	s.QuarantinedTasks = uint32(tasks)
	for i := range all {
		s.Quarantined = append(s.Quarantined, all[i].Task.String())
	}
}

// replicaSlot is one replica of a partition.
type replicaSlot struct {
	partition int // index
	member    register.Member
	state     *nornv1.ReplicaState
}

// verified puts what replicas hold side by side.
type verified struct {
	asked []uint32
	slots []replicaSlot
}

func (j *verified) missing(slot int, why string) {
	m := j.slots[slot].member
	j.slots[slot].state = &nornv1.ReplicaState{Node: m.Node, Incarnation: m.Incarnation.String(), Problem: why}
}

func (j *verified) Take(idx []int, m gproto.Message) {
	parts := []*nornv1.VerifiedPartition(nil)
	if reply, ok := m.(*nornv1.VerifyReply); ok {
		parts = reply.GetPartitions()
	}
	for i, slot := range idx {
		s := &j.slots[slot]
		if i >= len(parts) || parts[i].GetId() != j.asked[s.partition] || len(parts[i].GetReplicas()) != 1 || parts[i].Replicas[0].GetIncarnation() != s.member.Incarnation.String() {
			j.missing(slot, "its answer does not fit")
			continue
		}
		s.state = parts[i].Replicas[0]
	}
}

func (j *verified) Fail(idx []int, err *proto.Error) {
	for _, slot := range idx {
		j.missing(slot, err.Message)
	}
}

func (j *verified) Answer() (gproto.Message, *proto.Error) {
	reply := &nornv1.VerifyReply{}
	for _, p := range j.asked {
		reply.Partitions = append(reply.Partitions, &nornv1.VerifiedPartition{Id: p})
	}
	for i := range j.slots {
		p := reply.Partitions[j.slots[i].partition]
		p.Replicas = append(p.Replicas, j.slots[i].state)
	}
	for _, p := range reply.Partitions {
		judge(p)
	}
	return reply, nil
}

// judge compares the replicas that answered.
func judge(p *nornv1.VerifiedPartition) {
	var first *nornv1.ReplicaState
	p.Unreachable = len(p.Replicas) == 0
	for _, s := range p.Replicas {
		switch {
		case s.GetProblem() != "":
			p.Unreachable = true
		case first == nil:
			first = s
		default:
			p.Differs = p.Differs || !sameReplica(first, s)
		}
	}
	differing := make([][]*nornv1.QueueCounters, len(p.Replicas))
	for i, s := range p.Replicas {
		for _, q := range s.Queues {
			if queueDiffers(p, q) {
				differing[i] = append(differing[i], q)
			}
		}
	}
	for i, s := range p.Replicas {
		s.Queues = differing[i]
	}
}

func sameReplica(a, b *nornv1.ReplicaState) bool {
	return slices.Equal(a.GetRoot(), b.GetRoot()) && a.GetFacts() == b.GetFacts() && a.GetCounters() == b.GetCounters() &&
		a.GetUnfinished() == b.GetUnfinished() && a.GetCompleted() == b.GetCompleted() && a.GetDead() == b.GetDead() && a.GetCancelled() == b.GetCancelled()
}

// queueDiffers tells whether some replica counts a queue differently.
func queueDiffers(p *nornv1.VerifiedPartition, q *nornv1.QueueCounters) bool {
	return slices.ContainsFunc(p.Replicas, func(s *nornv1.ReplicaState) bool {
		return s.GetProblem() == "" && !slices.ContainsFunc(s.Queues, func(o *nornv1.QueueCounters) bool { return gproto.Equal(o, q) })
	})
}
