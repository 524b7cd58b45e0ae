package core

import (
	"testing"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// TestHistoryIsOfAllNodes: a node asks the others what they have decided, for the same steps, and
// tells how many have answered.
func TestHistoryIsOfAllNodes(t *testing.T) {
	r := newTrio(t)
	var asked []*nornv1.HistoryRequest
	remembers := func(m *nornv1.HistoryRequest) *nornv1.HistoryReply {
		asked = append(asked, m)
		return &nornv1.HistoryReply{
			Start: timestamppb.New(m.GetUntil().AsTime().Add(-time.Minute)), StepSeconds: m.GetStepSeconds(), Nodes: 1,
			Decisions: &nornv1.Decisions{Enqueued: []uint64{1, 2}},
			Busiest:   []*nornv1.QueueDecisions{{Queue: "a", Completed: 5}, {Queue: "b", Completed: 7}},
		}
	}
	for _, p := range r.peers {
		p.core.cfg.History = remembers
	}
	got := ask[*nornv1.HistoryReply](r, 1, &nornv1.HistoryRequest{Seconds: 60, Busiest: 1})
	if got.GetNodes() != 3 || got.GetDecisions().GetEnqueued()[1] != 6 {
		t.Errorf("%v", got)
	}
	if b := got.GetBusiest(); len(b) != 1 || b[0].GetQueue() != "b" || b[0].GetCompleted() != 21 {
		t.Errorf("busiest: %v", b)
	}
	for _, m := range asked {
		if m.GetStepSeconds() != 10 || !m.GetUntil().AsTime().Equal(asked[0].GetUntil().AsTime()) {
			t.Errorf("it was asked for %v", m)
		}
	}
}
