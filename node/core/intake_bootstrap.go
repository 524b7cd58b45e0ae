package core

import (
	"encoding/binary"
	"maps"

	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
)

// growingValue is the name of the register's value that holds with how many nodes a cluster
// is being made; empty: it has been.
const growingValue = "cluster.growing"

// Growing is the first state of a cluster that takes no tasks before every partition has as
// many copies as nodes are to be there, or as there are replicas: until then an
// acknowledgement of a majority would be one of a single copy.
func Growing(s register.State, nodes int) register.State {
	s.Values = maps.Clone(s.Values)
	if s.Values == nil {
		s.Values = make(map[string]register.Value)
	}
	s.Values[growingValue] = register.Value{Version: 1, Data: binary.AppendUvarint(nil, uint64(nodes))}
	return s
}

// grow looks whether a cluster that is being made is there, and has the register say so: the
// node that leads it does.
func grow(c *Core) {
	value := c.view.State.Values[growingValue]
	was, nodes := c.view.Young, 0
	if len(value.Data) > 0 {
		n, _ := binary.Uvarint(value.Data)
		nodes = int(min(n, register.MaxNodes))
	}
	if c.view.Young = min(nodes, c.transfer.Replicas()); c.view.Young != was {
		c.view.Changes++
	}
	if c.view.Young == 0 || !c.view.Leads {
		return
	}
	for p := range c.view.Cells {
		if len(c.view.Cells[p].Cohort) < c.view.Young {
			return
		}
	}
	c.send(registerRequest{}, register.Request{Values: []register.ValueChange{{Name: growingValue, Old: value.Version}}})
}

// tooYoung refuses tasks while the cluster is being made.
func (c enqueuing) tooYoung() *proto.Error {
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "the cluster is being made: it takes tasks when every partition has %d copies (bootstrap-expect); `norn cluster status` shows how far it is", c.view.Young).Keeping("as many copies as nodes are expected").Again(convert.DiskRetry)
}
