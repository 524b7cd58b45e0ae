package operator

import (
	"bytes"
	"strings"

	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
)

// destroyValue is the name of the register's value that ends a cluster: its ID.
const destroyValue = "cluster.destroy"

// Destroyed tells whether an operator has ended the cluster: its nodes are to
// stop and to delete what they have.
func Destroyed(s *register.State) bool {
	return bytes.Equal(s.Values[destroyValue].Data, s.Cluster.ID[:])
}

// destroy ends the cluster.
//
// The ID has to be given, so that a command in the wrong window destroys nothing. Nodes out of
// reach are refused, unless forced: they would come back with all their data.
func (c *Machine) destroy(d *decision, m *nornv1.DestroyCluster) *proto.Error {
	if id := c.Cluster.String(); m.GetClusterId() != id {
		return proto.Invalid("this is cluster %s, not %q; nothing is destroyed", id, m.GetClusterId())
	}
	for i := range c.View.State.Nodes {
		n := &c.View.State.Nodes[i]
		switch {
		case n.Status == register.Removed:
			continue
		case c.View.Up(n.Member):
			d.reply.Nodes = append(d.reply.Nodes, n.Node)
		case m.GetForce():
			d.note("node %s is not in reach and keeps its data: delete its directory before it starts again", n.Node)
		default:
			return refusal.Conflict("node %s is not in reach and would keep its data; start or remove it first, or --force", n.Node)
		}
	}
	if len(d.reply.Nodes) == 0 { // of a register that lists nobody
		d.reply.Nodes = []string{c.Self.Node}
	}
	old := c.View.State.Values[destroyValue]
	d.request.Values = []register.ValueChange{{Name: destroyValue, Old: old.Version, Data: c.Cluster[:]}}
	d.note("all data of the cluster is deleted, and these nodes stop: %s", strings.Join(d.reply.Nodes, ", "))
	return nil
}
