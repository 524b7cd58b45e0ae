package peer

import (
	"fmt"

	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

func wireCells(m *message.Cells) *nornv1.PeerCells {
	out := &nornv1.PeerCells{Ask: m.Ask}
	for i := range m.Cells {
		c := &m.Cells[i]
		x := &nornv1.PeerCell{Partition: uint32(c.Partition), Epoch: c.Cell.Epoch, Nonce: c.Cell.Nonce}
		if len(c.Cell.Cohort) > 0 {
			x.Cohort = wireCohort(c.Cell.Cohort)
		}
		if c.Cell.Leader != (register.Member{}) {
			x.Leader = &nornv1.PeerNode{Name: c.Cell.Leader.Node, Incarnation: c.Cell.Leader.Incarnation[:]}
		}
		out.Cells = append(out.Cells, x)
	}
	return out
}

func decodeCells(b []byte) (message.PeerMessage, error) {
	in, err := parse(b, &nornv1.PeerCells{})
	if err != nil {
		return nil, err
	}
	if len(in.GetCells()) > ring.MaxPartitions {
		return nil, fmt.Errorf("%w: %d cells", ErrMalformed, len(in.GetCells()))
	}
	m := &message.Cells{Ask: in.GetAsk()}
	for _, x := range in.GetCells() {
		c := message.KnownCell{Cell: register.Cell{Epoch: x.GetEpoch(), Nonce: x.GetNonce()}}
		if c.Partition, err = partitionOf(uint64(x.GetPartition())); err != nil {
			return nil, err
		}
		if c.Cell.Cohort, err = cohortOf(x.GetCohort()); err != nil {
			return nil, err
		}
		if leader := x.GetLeader(); leader != nil {
			c.Cell.Leader.Node = leader.GetName()
			if err := fill(c.Cell.Leader.Incarnation[:], leader.GetIncarnation()); err != nil {
				return nil, err
			}
		}
		m.Cells = append(m.Cells, c)
	}
	return m, nil
}
