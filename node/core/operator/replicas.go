package operator

import (
	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// setReplicas sets that. The plan follows it, and the cohorts the plan: one member at a
// time, by elections with the votes of the cohort before and after.
func (c *Machine) setReplicas(d *decision, n uint32) *proto.Error {
	was := c.Transfer.Replicas()
	if n < 1 || n > ring.MaxReplicas {
		return proto.Invalid("there are 1 to %d replicas of each partition, not %d", ring.MaxReplicas, n)
	}
	now := int(n)
	if now == was {
		d.note("each partition is to have %s already", copiesOf(now))
		return nil
	}
	d.request.Replicas = &register.ReplicasChange{Old: was, New: now}
	d.note("each partition is to have %s, not %d", copiesOf(now), was)
	if holders := c.others(register.Member{}); holders < now {
		d.note("%d can hold data now: it has %s until more nodes join", holders, copiesOf(holders))
	}
	if now < was {
		d.note("what only the copies that go have is handed over before they are deleted; from then on a partition goes on while %d of its %s can be reached", quorum.Majority(now), copiesOf(now))
	}
	c.foresee(d)
	return nil
}
