package bootstrap

import (
	"encoding/binary"
	"maps"

	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/node/core/view"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
)

// value is the name of the register's value that holds with how many nodes a cluster
// is being made; empty: it has been.
const value = "cluster.growing"

// Growing is the first state of a cluster that takes no tasks before every partition has as
// many copies as nodes are to be there, or as there are replicas. Its partitions begin when those
// nodes are there, each with all of its copies: nothing is copied, and no leader goes home.
func Growing(s register.State, nodes int) register.State {
	s.Cells = make([]register.Cell, len(s.Cells))
	s.Values = maps.Clone(s.Values)
	if s.Values == nil {
		s.Values = make(map[string]register.Value)
	}
	s.Values[value] = register.Value{Version: 1, Data: binary.AppendUvarint(nil, uint64(nodes))}
	return s
}

// Grow looks whether a cluster that is being made is there, and has the register say so: the
// node that leads it does.
func Grow(v *view.View, replicas int, send func(register.Request)) {
	growing := v.State.Values[value]
	was, nodes := v.Young, 0
	if len(growing.Data) > 0 {
		n, _ := binary.Uvarint(growing.Data)
		nodes = int(min(n, register.MaxNodes))
	}
	if v.Expected, v.Young = nodes, min(nodes, replicas); v.Young != was {
		v.Changes++
	}
	if v.Young == 0 || !v.Leads {
		return
	}
	for p := range v.Cells {
		if len(v.Cells[p].Cohort) < v.Young {
			return
		}
	}
	send(register.Request{Values: []register.ValueChange{{Name: value, Old: growing.Version}}})
}

// TooYoung refuses tasks while the cluster is being made.
func TooYoung(v *view.View) *proto.Error {
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "the cluster is being made: it takes tasks when every partition has %d copies (bootstrap-expect); `norn cluster status` shows how far it is", v.Young).Keeping("as many copies as nodes are expected").Again(convert.DiskRetry)
}
