package core

import (
	"slices"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/node/core/router"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"

	gproto "google.golang.org/protobuf/proto"
)

// repair has every node in reach compare its replicas at once: of each pair one
// begins.
func (c admin) repair(now clock.Time, r *message.Request, m *nornv1.ClusterRequest) (gproto.Message, *proto.Error) {
	ids := m.GetRepair().GetPartitions()
	bad := (verifier(c)).checkPartitions(ids)
	if len(ids) > ring.MaxPartitions {
		bad = proto.Invalid("%d partitions are over %d", len(ids), ring.MaxPartitions)
	}
	switch {
	case bad != nil:
		return nil, bad
	case r.Routed:
		n := c.repairs.Hasten(now, about(ids, len(c.view.Cells)), m.GetDryRun())
		return &nornv1.ClusterReply{Changed: n > 0, Comparisons: uint32(n)}, nil
	case c.routes.Crowds(r.From):
		return nil, refusal.Crowded(router.MaxWaiting)
	}
	return c.repairEverywhere(now, r, m)
}

func about(ids []uint32, partitions int) (all []ring.Partition) {
	for p := range partitions {
		if len(ids) == 0 || slices.Contains(ids, uint32(p)) {
			all = append(all, ring.Partition(p))
		}
	}
	return all
}

func (c admin) repairEverywhere(now clock.Time, r *message.Request, m *nornv1.ClusterRequest) (gproto.Message, *proto.Error) {
	join := &mending{reply: &nornv1.ClusterReply{Partitions: m.GetRepair().GetPartitions()}}
	holders := []register.Member{}
	for _, p := range about(m.GetRepair().GetPartitions(), len(c.view.Cells)) {
		for _, o := range c.view.Cells[p].Cohort {
			if !slices.Contains(holders, o) {
				holders = append(holders, o)
			}
		}
	}
	slices.SortFunc(holders, register.Member.Compare)
	g := c.routes.Gather(now, r, join, 0)
	for i, to := range holders {
		join.names = append(join.names, to.Node)
		if !c.view.Up(to) {
			join.reply.Notes = append(join.reply.Notes, "node "+to.Node+" is not in reach: nothing is compared with it")
			continue
		}
		c.routes.Forward(now, g, to, []int{i}, m, nil)
	}
	c.routes.Finish(g)
	return nil, nil
}

// mending adds up what the nodes have begun.
type mending struct {
	reply *nornv1.ClusterReply
	names []string
}

func (j *mending) Take(_ []int, m gproto.Message) {
	if part, ok := m.(*nornv1.ClusterReply); ok {
		j.reply.Changed = j.reply.Changed || part.GetChanged()
		j.reply.Comparisons += part.GetComparisons()
	}
}

func (j *mending) Fail(idx []int, err *proto.Error) {
	for _, i := range idx {
		j.reply.Notes = append(j.reply.Notes, "node "+j.names[i]+": "+err.Message)
	}
}

func (j *mending) Answer() (gproto.Message, *proto.Error) { return j.reply, nil }
