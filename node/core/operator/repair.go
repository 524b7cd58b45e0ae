package operator

import (
	"slices"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/convert"
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
func (c *Machine) repair(now clock.Time, r *message.Request, m *nornv1.ClusterRequest) (gproto.Message, *proto.Error) {
	ids := m.GetRepair().GetPartitions()
	bad := convert.CheckPartitions(ids, len(c.View.Cells))
	if len(ids) > ring.MaxPartitions {
		bad = proto.Invalid("%d partitions are over %d", len(ids), ring.MaxPartitions)
	}
	switch {
	case bad != nil:
		return nil, bad
	case r.Routed:
		n := c.Repairs.Hasten(now, about(ids, len(c.View.Cells)), m.GetDryRun())
		return &nornv1.ClusterReply{Changed: n > 0, Comparisons: uint32(n)}, nil
	case c.Routes.Crowds(r.From):
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

func (c *Machine) repairEverywhere(now clock.Time, r *message.Request, m *nornv1.ClusterRequest) (gproto.Message, *proto.Error) {
	join := &mending{reply: &nornv1.ClusterReply{Partitions: m.GetRepair().GetPartitions()}}
	holders := []register.Member{}
	for _, p := range about(m.GetRepair().GetPartitions(), len(c.View.Cells)) {
		for _, o := range c.View.Cells[p].Cohort {
			if !slices.Contains(holders, o) {
				holders = append(holders, o)
			}
		}
	}
	slices.SortFunc(holders, register.Member.Compare)
	g := c.Routes.Gather(now, r, join, 0)
	for i, to := range holders {
		join.names = append(join.names, to.Node)
		if !c.View.Up(to) {
			join.reply.Notes = append(join.reply.Notes, "node "+to.Node+" is not in reach: nothing is compared with it")
			continue
		}
		c.Routes.Forward(now, g, to, []int{i}, m, nil)
	}
	c.Routes.Finish(g)
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
