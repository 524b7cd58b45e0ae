package core

import (
	"slices"
	"testing"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestExplanationsNameWorkersOfAllNodes that serve the task's queue and cannot begin tasks.
func TestExplanationsNameWorkersOfAllNodes(t *testing.T) {
	serves := func(name, trouble string, queues ...string) *nornv1.Worker {
		w := &nornv1.Worker{Name: name, Trouble: trouble}
		for _, q := range queues {
			w.Queues = append(w.Queues, &nornv1.SessionQueue{Queue: q})
		}
		return w
	}
	e := &explained{}
	e.take(nil, &nornv1.WorkersReply{Workers: []*nornv1.Worker{serves("a", "no room", "other", "mail"), serves("b", "no room", "other")}})
	e.fail(nil, proto.Invalid("a node is away"))
	e.take([]int{0}, &nornv1.ExplainReply{Queue: "mail", State: nornv1.State_STATE_READY, Reasons: []*nornv1.Reason{{Worker: "c"}}})
	e.take(nil, &nornv1.WorkersReply{Workers: []*nornv1.Worker{serves("d", "", "mail"), serves("e", "gone", "mail")}})
	m, err := e.answer()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range m.(*nornv1.ExplainReply).GetReasons() {
		names = append(names, r.GetWorker())
	}
	if !slices.Equal(names, []string{"c", "a", "e"}) {
		t.Errorf("it names %v", names)
	}
	lost := &explained{}
	lost.take(nil, &nornv1.WorkersReply{})
	lost.fail([]int{0}, proto.Invalid("who knows it is away"))
	if m, err := lost.answer(); err == nil || m != nil {
		t.Errorf("got %v, %v", m, err)
	}
}
