package quota

import (
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"
)

// Sum adds up what the parts of a question say of each queue. A part that fails adds
// nothing.
type Sum struct{ Of map[string]Counted }

// Counted are the unfinished tasks of a queue, and the bytes of all.
type Counted struct{ Tasks, Bytes uint64 }

// NewSum makes one of nothing.
func NewSum() *Sum { return &Sum{make(map[string]Counted)} }

// Take adds the answer of one part.
func (s *Sum) Take(_ []int, m gproto.Message) {
	part, ok := m.(*nornv1.QueuesReply)
	if !ok {
		return
	}
	for _, q := range part.GetQueues() {
		n, sum := q.GetCount(), s.Of[q.GetName()]
		sum.Tasks += n.GetTotal() - min(n.GetTotal(), n.GetCompleted()+n.GetDead()+n.GetCancelled())
		sum.Bytes += q.GetBytes()
		s.Of[q.GetName()] = sum
	}
}

// Fail hears of a part that fails.
func (s *Sum) Fail([]int, *proto.Error) {}

// Answer gives nothing: who has asked reads the sum.
func (s *Sum) Answer() (gproto.Message, *proto.Error) { return nil, nil }
